#!/usr/bin/env bash
# Shows what singleworker does, with real processes: three instances share nine jobs; one
# is killed, one is stopped, a job is canceled. Then it checks every run: no tick ran twice,
# and none was lost.
#
#   sample/cluster.sh                          with an in-memory ZooKeeper; needs only Go
#   ZK=real sample/cluster.sh                  with Apache ZooKeeper, installed if missing
#   ZK=host:port[/chroot] sample/cluster.sh    with that one; removes the demo's nodes
#
# The last line is PASS and the figures, or FAIL and the reason. It leaves no processes or
# files behind; KEEP=1 keeps the record and the logs and prints where they are.
#
# This script only selects the server. The demo is sample/demo, whose steps are in
# story.go; it prints the commands that do the same manually.
set -euo pipefail

dir=""    # the program, and the files of a real server
child=""  # the process to wait for
server="" # a real ZooKeeper of our own
group=""  # the nodes to remove from a server that is not

main() {
	# First, because without a trap the shell may miss a signal.
	trap 'cleanup $?' EXIT
	trap 'interrupt 129' HUP
	trap 'interrupt 130' INT
	trap 'interrupt 143' TERM

	cd "$(dirname "${BASH_SOURCE[0]}")/.."
	dir=$(mktemp -d "${TMPDIR:-/tmp}/singleworker-cluster.XXXXXX")

	local -a demo=("$dir/demo")
	[[ -z ${KEEP:-} ]] || demo+=(--keep)
	case ${ZK:-dev} in
	dev) ;;
	real)
		integration/zookeeper.sh install
		local port
		port=$(free_port)
		echo "starting a new private ZooKeeper at 127.0.0.1:$port"
		integration/zookeeper.sh run "$dir/zookeeper" "$port" >"$dir/zookeeper.log" 2>&1 &
		server=$!
		demo+=(--zk "127.0.0.1:$port" --server-type demo)
		;;
	*)
		group=demo-$$-$RANDOM
		demo+=(--zk "$ZK" --server-type "$group")
		;;
	esac
	echo "building the demo"
	await env GOTMPDIR="$dir" go build -o "$dir/demo" ./sample/demo
	await "${demo[@]}"
}

# await runs a command in the background, because only wait can be interrupted.
await() {
	"$@" &
	child=$!
	wait "$child"
	child=""
}

# interrupt STATUS stops the command cleanly. It sends a SIGINT, of which the command
# handles only the first: a terminal may have sent one already.
interrupt() {
	trap '' HUP INT TERM # once is enough
	if [[ -n $child ]]; then
		kill -INT "$child" 2>/dev/null || true
		wait "$child" || true
	fi
	exit "$1"
}

cleanup() {
	trap '' HUP INT TERM
	if [[ -n $server ]]; then
		(($1 == 0 || $1 > 128)) || tail -n 15 "$dir/zookeeper.log" | sed 's/^/zookeeper: /' >&2
		{ kill -KILL "$server" && wait "$server"; } 2>/dev/null || true
	fi
	[[ -z $group ]] || remove_nodes
	if [[ -n $dir ]]; then
		rm -rf "$dir" || { sleep 0.2 && rm -rf "$dir"; } # a compiler may not have exited yet
	fi
}

# free_port prints a loopback port that nothing listens on.
free_port() {
	local port
	while port=$((RANDOM % 12000 + 20000)) && (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
	echo "$port"
}

# remove_nodes removes the demo's nodes from a server that it did not start.
remove_nodes() {
	local cli=${ZOOKEEPER_HOME:-/usr/share/zookeeper}/bin/zkCli.sh
	"$cli" -server "$ZK" deleteall "/$group" >/dev/null 2>&1 ||
		echo "not removed from $ZK: /$group and all below it" >&2
}

main
