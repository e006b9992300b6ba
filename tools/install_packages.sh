#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs with apt what belay's build, tests and demo need and this machine lacks. Says what; asks nothing; does not
# touch apt when everything is there. For Debian 12 and Ubuntu 24.04; elsewhere it leaves all as it is.
set -eu

needed='gcc libc6-dev make autoconf automake autoconf-archive libtool pkg-config binutils xz-utils libzstd-dev
	libjansson-dev check lttng-tools liblttng-ust-dev libbabeltrace2-dev babeltrace2 jq
	valgrind libc6-dbg'

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
	# shellcheck disable=SC2086 # joins the lines
	echo "no apt here; these are expected to be installed already:" $needed
	exit 0
fi

# Only for the model of the protocol; not every release has it.
! apt-cache show spin >/dev/null 2>&1 || needed="$needed spin"

missing=
for package in $needed; do
	case $(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null) in
	ii*) ;;
	*) missing="$missing $package" ;;
	esac
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "these packages are missing, and there is neither root nor sudo to install them:$missing" >&2
		exit 1
	fi
	as_root=sudo
fi
echo "installing with apt:$missing"
$as_root apt-get -qq update
# shellcheck disable=SC2086 # a list of words
$as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends $missing >/dev/null
