#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Mistakes that have been made elsewhere and that a search can find.
. "$top_srcdir/tests/support/tap.sh"
cd "$top_srcdir" || exit 1

code()
{
	find "$@" -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def'
}

# absent PATTERN FILE...: the pattern is nowhere in the code, comments and strings left out.
absent()
{
	pattern=$1
	shift
	! awk -f tests/support/strip_comments.awk "$@" | grep -E "$pattern"
}

# The libraries, and the same without the one file of each that speaks to stderr. Names hold no blanks.
library=$(code runtime kernels trace)
silent=$(echo "$library" | grep -vxE 'runtime/(cause|nccl/say)[.]c')
everything=$(code runtime kernels trace tools tests)

short_files()
{
	# shellcheck disable=SC2046,SC2086
	! wc -l $everything | grep -v ' total$' | awk '$1 > 1000 { print; bad = 1 } END { exit !bad }'
}

unique_names()
{
	twice=$(echo "$everything" | sed 's|.*/||' | sort | uniq -d)
	[ -z "$twice" ] || { echo "$twice"; return 1; }
}

# A status that was stored must be returned: no constant behind a label.
labels_return_status()
{
	# shellcheck disable=SC2046,SC2086
	! awk 'FNR == 1 || /^}/ { label = 0 }
		/^[a-z_]+:$/ { label = 1 }
		label && /return (-?[0-9]+|NULL|BELAY_[A-Z_]+);/ { print FILENAME ":" FNR ": " $0; bad = 1 }
		END { exit !bad }' $library
}

# Everything that is written by hand, save data: what only a program reads, and lists that are compared byte by byte.
all_licensed()
{
	files=$(find README.md configure.ac Makefile.am runtime kernels trace tools tests docs \
		-type d \( -name links -o -name '.*' \) -prune -o -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \
		-o -name '*.def' -o -name '*.map' -o -name '*.in' -o -name '*.ac' -o -name '*.am' -o -name 'belay*.m4' \
		-o -name '*.sh' -o -name '*.awk' -o -name '*.litmus' -o -name '*.md' -o -name '*.pml' -o -name '*.[1-8]' \) \
		-exec grep -L 'SPDX-License-Identifier: Apache-2.0' {} +)
	[ -z "$files" ] || { echo "$files"; return 1; }
}

no_open_ends()
{
	# shellcheck disable=SC2046,SC2086
	! grep -nwE "TO""DO|FIX""ME|X""XX" $everything $(find tools tests docs -name '*.sh' -o -name '*.am' -o -name '*.md')
}

# shellcheck disable=SC2046,SC2086
{
	tap_is "every atomic access names its order" \
		absent '\<atomic_(load|store|exchange|compare_exchange_(weak|strong)|fetch_[a-z]+|flag_test_and_set|flag_clear)\(|__sync_' $library
	# In CUDA C a volatile access is a relaxed one, see contract [BLOCK].
	tap_is "volatile stands for no atomic" absent '(^|[^m_])[ \t]+volatile\>|\(volatile\>' $(echo "$library" | grep -v '[.]cuh*$')
	tap_is "the library never ends the process" absent '\<(exit|_exit|_Exit|quick_exit|abort)[ ]*\(' $library
	tap_is "the libraries print nothing but through cause.c and say.c" \
		absent '\<(printf|vprintf|puts|putchar|perror|psignal|err|warn|warnx)[ ]*\(|\<(stdout|stderr|STDOUT_FILENO|STDERR_FILENO)\>' $silent
	tap_is "the library does not change the environment" absent '\<(setenv|putenv|unsetenv|clearenv)\(' $library
	tap_is "the library handles no signals" absent '\<(signal|sigaction|sigset|siginterrupt)\(' $library
	tap_is "no unbounded string function is used" absent '\<(gets|strcat|sprintf|vsprintf|strtok|atoi|atol|atof)\(' $library
	tap_is "no code is commented out" absent '#[ ]*if[ ]+0\>' $everything
}
tap_is "no file has more than 1000 lines" short_files
tap_is "no two files have the same name" unique_names
tap_is "no label is followed by a constant return" labels_return_status
tap_is "every file names its licence" all_licensed
tap_is "no open ends are left in the text" no_open_ends
tap_end
