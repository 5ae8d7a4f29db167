#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# tests/hostile.sh - every image of a directory, used by the engine as it is and with changes.
#
#	tests/hostile.sh [-r RUNS] [-s SEED] DIRECTORY
#
# Takes *.img, *.img.xz and *.img.tar.xz (a tar of one sparse file). Each is read and written to within
# a time limit (20 s) and a memory limit, then RUNS times more with tree blocks changed (0). COWFS_BUILD
# names the build directory, best one with ASan and UBSan (build-asan). One line for each failure, with
# how to see it again and what the sanitizer said; the last line counts: N passed, N failed, N skipped.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${COWFS_BUILD:-$here/../build-asan}
hostile=$build/tests/fuzz/hostile
limit_s=20
memory_mib=3072

usage() { sed -n 's/^# \{0,1\}//; 4,11p' "$0"; exit 2; }

runs=0 seed=1
while getopts r:s: option; do
	case $option in
	r) runs=$OPTARG ;;
	s) seed=$OPTARG ;;
	*) usage ;;
	esac
done
shift $((OPTIND - 1))
[ $# = 1 ] && [ -d "$1" ] || usage
[ -x "$hostile" ] || { echo "no $hostile: build first"; exit 2; }

# A sanitizer maps terabytes: its own limit there, the kernel's elsewhere.
export ASAN_OPTIONS=detect_stack_use_after_return=1:hard_rss_limit_mb=$memory_mib
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
if ! grep -aq __asan_init "$hostile"; then ulimit -v $((memory_mib * 1024)); fi

T=$(mktemp -d "${TMPDIR:-/tmp}/cowfs-hostile.XXXXXX")
trap 'rm -rf --one-file-system "$T"' EXIT
trap 'exit 130' INT TERM
passed=0 failed=0 skipped=0

use() # IMAGE OPTION...
{
	local image=$1

	shift
	# Twice the limit: the program ends its own runs in time, loading the image is not one.
	timeout -k 5 $(((runs + 2) * limit_s)) "$hostile" --limit $limit_s "$@" "$image" >"$T/log" 2>&1
}

try() # NAME IMAGE
{
	local status=0

	use "$2" || status=$?
	if [ $status = 0 ] && [ "$runs" != 0 ]; then
		use "$2" --seed "$seed" --runs "$runs" || status=$?
	fi
	if [ $status = 0 ]; then
		passed=$((passed + 1))
		return
	fi
	failed=$((failed + 1))
	echo "FAIL  $1: status $status: $(grep -m 1 -a -o '^FAIL.*' "$T/log" | sed "s|$2||; s/^FAIL *//")"
	grep -a -E 'ERROR|runtime error|assertion|bug:|^ +#[0-9] |limit' "$T/log" | head -n 14 | sed 's/^/    | /'
}

for packed in "$1"/*.img "$1"/*.img.xz "$1"/*.img.tar.xz; do
	[ -e "$packed" ] || continue
	name=${packed##*/}
	image=$packed
	case $name in
	*.tar.xz)
		mkdir "$T/tar"
		if ! tar -xJSf "$packed" -C "$T/tar"; then
			echo "skip  $name: cannot unpack it"
			skipped=$((skipped + 1))
			rm -rf "$T/tar"
			continue
		fi
		image=$(find "$T/tar" -type f | head -n 1) ;;
	esac
	try "$name" "$image"
	rm -rf "$T/tar"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
