#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The completions for bash offer what --help names, no less and no more, and values that the commands take.
. "$top_srcdir/tests/support/tap.sh"
tap_folder
. "$top_srcdir/tests/support/command.sh"

# What is offered for the line so far, a word each, as bash takes it apart: "=" is a word of its own.
# offered COMMAND WORD...
offered()
{
	bash --norc -c '
		. "$1/tools/completion/$2" || exit 1
		shift
		COMP_WORDS=("$@")
		COMP_CWORD=$(($# - 1))
		COMPREPLY=()
		$(complete -p "$1" | sed "s/.*-F \([^ ]*\) .*/\1/")
		printf "%s\n" "${COMPREPLY[@]}"' bash "$top_srcdir" "$@"
}

# offers "WORDS" COMMAND WORD...: exactly these words, in any order.
offers()
{
	# shellcheck disable=SC2086 # words
	printf '%s\n' $1 | sort >"$tap_dir/wanted"
	shift
	offered "$@" | sort >"$tap_dir/offered"
	diff -u "$tap_dir/wanted" "$tap_dir/offered"
}

# The long options of the help, those with a value with their "=".
helped()
{
	"$top_builddir/$1" --help | sed -n 's/^  *\(-[a-zA-Z], \)\{0,1\}\(--[a-z][a-z-]*=\{0,1\}\).*/\2/p' | sort -u
}

all_options()
{
	offers "$(helped "$1")" "$1" --
}

# Every value that is offered for an option is one that the command takes.
# takes COMMAND OPTION
takes()
{
	values=$(offered "$1" "$2" = '')
	[ -n "$values" ] || { echo "nothing is offered"; return 1; }
	for value in $values; do
		ends 0 "$top_builddir/$1" "$2=$value" --help || return 1
	done
}

if ! command -v bash >/dev/null; then
	tap_skip "completion" "no bash"
	tap_end
	exit 0
fi
mkdir "$tap_dir/place"
cd "$tap_dir/place" || exit 1
case $top_srcdir in /*) ;; *) top_srcdir=$OLDPWD/$top_srcdir ;; esac
case $top_builddir in /*) ;; *) top_builddir=$OLDPWD/$top_builddir ;; esac

for command in belay-bench belay-info trace-analyze; do
	tap_is "$command: the options are those of --help" all_options $command
	tap_is "$command: a loaded completion says nothing by itself" test -z "$(bash --norc -c ". '$top_srcdir/tools/completion/$command'" 2>&1)"
done
for option in --backend --dtype --op --pin --format --algorithm; do
	tap_is "belay-bench: what is offered for $option is taken" takes belay-bench $option
done
tap_is "belay-info: what is offered for --format is taken" takes belay-info --format
for option in --format --to --path; do
	tap_is "trace-analyze: what is offered for $option is taken" takes trace-analyze $option
done

# The commands of the help, in front of their descriptions.
commands=$("$top_builddir/trace-analyze" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\)  .*/\1/p')
tap_is "trace-analyze: the first word may be a command" offers "$commands" trace-analyze ''
tap_is "trace-analyze: a command is completed" offers "faults" trace-analyze f
mkdir logs other
touch table.json
tap_is "trace-analyze: inputs are files and folders" offers "logs" trace-analyze summary l
tap_is "trace-analyze: --to is completed behind its =" offers "perfetto" trace-analyze export --to = per
tap_is "trace-analyze: a value may stand in a word of its own" offers "perfetto" trace-analyze export --to per
tap_is "trace-analyze: --costs takes a file" offers "table.json" trace-analyze what-if --costs = t
tap_is "trace-analyze: nothing is offered where a number is wanted" offers "" trace-analyze --rank = ''
tap_is "belay-bench: an option is completed with its =" offers "--backend=" belay-bench --ba
tap_is "belay-bench: a list is completed behind its comma" offers "symm,ring" belay-bench --paths = symm,r
tap_is "belay-bench: --log-dir takes folders alone" offers "logs other" belay-bench --log-dir = ''
tap_is "belay-info: --process offers this process" sh -c "$(cat <<-END
	bash --norc -c '. "$top_srcdir/tools/completion/belay-info"; COMP_WORDS=(belay-info --process = ""); COMP_CWORD=3; _belay_info
	printf "%s\n" "\${COMPREPLY[@]}" | grep -qx "\$\$"'
END
)"
tap_end
