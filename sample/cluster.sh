#!/usr/bin/env bash
# Shows what singleworker does, with real processes: three instances share nine jobs; one
# is killed, one is stopped, a job is cancelled. In the end it checks, run by run, that no
# tick was run twice and that none was lost.
#
#   sample/cluster.sh                          has a ZooKeeper in memory; needs nothing but Go
#   ZK=real sample/cluster.sh                  starts Apache's, in Java; installs it if it is missing
#   ZK=host:port[/chroot] sample/cluster.sh    uses that one, and removes its nodes
#
# The last line is PASS and the figures, or FAIL and why. No process and no file is left
# behind; KEEP=1 keeps the record and the logs and says where they are.
#
# Only the server is chosen here. What happens to the cluster is sample/demo, whose
# steps are in story.go; it prints the commands that do the same manually.
set -euo pipefail

dir=""    # the program, and the files of a real server
child=""  # what is being waited for
server="" # a real ZooKeeper of our own
group=""  # the nodes to remove from a server that is not

main() {
	# First of all: without a trap, the shell may overlook a signal.
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
		echo "starting a ZooKeeper at 127.0.0.1:$port, private and new"
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

# interrupt STATUS has the command stop in good order. It gets a SIGINT, which it obeys
# once: a terminal has sent it one already.
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
		rm -rf "$dir" || { sleep 0.2 && rm -rf "$dir"; } # a compiler was not dead yet
	fi
}

# free_port prints a loopback port that nothing listens on.
free_port() {
	local port
	while port=$((RANDOM % 12000 + 20000)) && (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
	echo "$port"
}

# remove_nodes removes what the demonstration made on a server that is not its own.
remove_nodes() {
	local cli=${ZOOKEEPER_HOME:-/usr/share/zookeeper}/bin/zkCli.sh
	"$cli" -server "$ZK" deleteall "/$group" >/dev/null 2>&1 ||
		echo "not removed from $ZK: /$group and all below it" >&2
}

main
