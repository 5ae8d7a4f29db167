# SPDX-License-Identifier: GPL-2.0-or-later
#
# tests/applications.sh - ordinary programs at work in a folder; sourced after lib.sh.
#
# applications DIR: git with gc and fsck, a C program built and run there, an SQLite database with
# its integrity check, rsync -aHAX there and back.
applications()
{
	local dir=$1 n

	export HOME=$T GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t
	export GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
	git config --global safe.directory '*'
	git config --global gc.auto 0

	say "git"
	mkdir "$T/origin"
	git init -q "$T/origin"
	for n in $(seq 60); do
		mkdir -p "$T/origin/d$((n % 10))"
		noise $((n * 100)) $n | base64 >"$T/origin/d$((n % 10))/file$n"
	done
	git -C "$T/origin" add -A
	git -C "$T/origin" commit -qm first
	git clone -q "$T/origin" "$dir/clone"
	[ -z "$(git -C "$dir/clone" status --porcelain)" ] || fail "git status after a clone"
	git -C "$dir/clone" checkout -q -b other
	for n in $(seq 1 3 60); do echo change $n >>"$dir/clone/d$((n % 10))/file$n"; done
	[ "$(git -C "$dir/clone" status --porcelain | wc -l)" = 20 ] || fail "git status after changes"
	git -C "$dir/clone" commit -qam second
	git -C "$dir/clone" checkout -q -
	git -C "$dir/clone" checkout -q other
	git -C "$dir/clone" gc -q --prune=now
	git -C "$dir/clone" fsck --strict >/dev/null 2>&1 || fail "git fsck"
	git clone -q "$dir/clone" "$dir/again"
	diff -r -x .git "$dir/clone" "$dir/again"

	if command -v cc >/dev/null; then
		say "a C program"
		mkdir "$dir/c"
		for n in $(seq 20); do echo "int f$n(int x) { return x + $n; }" >"$dir/c/f$n.c"; done
		{
			for n in $(seq 20); do echo "int f$n(int);"; done
			echo '#include <stdio.h>'
			echo 'int main(void) { int x = 0;'
			for n in $(seq 20); do echo "x = f$n(x);"; done
			echo 'printf("%d\n", x); return 0; }'
		} >"$dir/c/main.c"
		(cd "$dir/c" && for n in *.c; do cc -g -c "$n" || exit 1; done && ar rcs libf.a f*.o &&
			cc -o prog main.o libf.a)
		[ "$("$dir/c/prog")" = 210 ] || fail "the program built on the mount"
	fi

	say "SQLite"
	for mode in delete wal truncate; do
		sqlite3 "$dir/db-$mode" >/dev/null <<-END
			PRAGMA journal_mode=$mode;
			CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB, k TEXT);
			CREATE INDEX i ON t(k);
			BEGIN;
			WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c WHERE n < 5000)
				INSERT INTO t SELECT n, randomblob(n % 700), hex(randomblob(8)) FROM c;
			COMMIT;
			DELETE FROM t WHERE id % 3 = 0;
			UPDATE t SET v = randomblob(300) WHERE id % 7 = 0;
			VACUUM;
		END
		for n in $(seq 20); do
			sqlite3 "$dir/db-$mode" "INSERT INTO t(v, k) VALUES(randomblob(2000), '$n');"
		done
		[ "$(sqlite3 "$dir/db-$mode" 'PRAGMA integrity_check; SELECT count(*) FROM t;' | tr '\n' ' ')" = \
			"ok 3354 " ] || fail "SQLite, journal mode $mode"
	done

	say "rsync"
	mkdir "$T/tree-out" "$T/tree-back" "$dir/tree"
	sample_tree "$T/tree-out"
	rm -rf "$T/tree-out/kinds"		# sockets and devices are another script's
	if setfacl -m u:1:rx "$T/tree-out/sizes" 2>/dev/null && setfacl -m u:1:rx "$dir/tree" 2>/dev/null; then
		setfacl -b "$dir/tree"
		rsync -aHAX "$T/tree-out/" "$dir/tree/"
	else
		setfacl -b "$T/tree-out/sizes" 2>/dev/null || true
		rsync -aHX "$T/tree-out/" "$dir/tree/"
	fi
	rsync -aHX "$dir/tree/" "$T/tree-back/"
	diff -r --no-dereference "$T/tree-out" "$T/tree-back"
	[ "$(stat -c %h "$dir/tree/links/one")" = 121 ] || fail "rsync -H: $(stat -c %h "$dir/tree/links/one") links"
	[ -z "$(rsync -aHXni --checksum "$T/tree-out/" "$dir/tree/" | grep -v '^\.d' || true)" ] ||
		fail "rsync sees differences: $(rsync -aHXni --checksum "$T/tree-out/" "$dir/tree/" | head -n 5)"
}
