#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# tests/run.sh - build cowfs and run all of its everyday tests.
#
# Installs missing packages when root, else says which are missing. Builds with warnings as errors
# and with the debug checks, once plainly (build-test/) and once with ASan and UBSan (build-asan/).
# Runs in both the tests that meson knows (unit, model, headers), then over the plain build the
# scripts of tests/posix that are in the group "auto" and the images of tests/images.
#
# The last line counts: N passed, N failed, N skipped. Exit 0 when none failed and some passed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
exec </dev/null
export LC_ALL=C

passed=0 failed=0 skipped=0
started=$SECONDS

finish()
{
	echo "took $((SECONDS - started)) s"
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
	exit
}

step() { echo "== $* ($((SECONDS - started)) s)"; }

broken() # WHAT: a step that is not a test itself went wrong
{
	echo "FAIL  $1"
	failed=$((failed + 1))
}

build() # DIRECTORY OPTION...
{
	local dir=$1

	shift
	if [ -d "$dir" ]; then
		meson setup --reconfigure "$dir" "$@" || meson setup --wipe "$dir" "$@"
	else
		meson setup "$dir" "$@"
	fi >"$dir.log" 2>&1 && ninja -C "$dir" >>"$dir.log" 2>&1
	local status=$?

	if [ $status != 0 ]; then
		tail -n 60 "$dir.log"
	else
		grep -i 'warning:' "$dir.log"
	fi
	rm -f "$dir.log"
	return $status
}

meson_tests() # DIRECTORY OPTION...
{
	local dir=$1 counts

	shift
	rm -f "$dir"/meson-logs/testlog.json
	timeout 1500 meson test -C "$dir" --no-rebuild --print-errorlogs "$@" 2>&1 |
		grep -v -e '^ninja: ' -e '^$'
	counts=$(python3 - "$dir/meson-logs/testlog.json" <<-'END'
		import json, sys
		n = {"OK": 0, "SKIP": 0, "EXPECTEDFAIL": 0}
		failed = 0
		try:
		    for line in open(sys.argv[1]):
		        result = json.loads(line)["result"]
		        if result in n:
		            n[result] += 1
		        else:
		            failed += 1
		except OSError:
		    failed = 1
		print(n["OK"] + n["EXPECTEDFAIL"], failed, n["SKIP"])
	END
	)
	set -- $counts
	passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
}

counted() # COMMAND...: a runner whose last line counts like ours
{
	local out last
	out=$(mktemp)

	"$@" 2>&1 | tee "$out"
	last=$(tail -n 1 "$out")
	rm -f "$out"
	if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
		passed=$((passed + BASH_REMATCH[1]))
		failed=$((failed + BASH_REMATCH[2]))
		skipped=$((skipped + BASH_REMATCH[3]))
	else
		broken "$*: it did not count its tests"
	fi
}

tools/install build test || { broken "packages are missing"; finish; }

step "build with debug checks"
build build-test -Dwerror=true -Ddebug_checks=true || { broken "the build"; finish; }
step "build with ASan and UBSan"
build build-asan -Dwerror=true -Ddebug_checks=true -Db_sanitize=address,undefined -Db_lundef=false ||
	{ broken "the sanitizer build"; finish; }

step "unit and model tests"
meson_tests build-test
step "unit and model tests under ASan and UBSan"
export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
meson_tests build-asan --timeout-multiplier 4

export COWFS_BUILD=$PWD/build-test
step "scripts on a mount"
# One at a time: they read the kernel's log of a loop device.
counted tests/check -j 1 -g auto
step "stored images"
counted tests/images/run
finish
