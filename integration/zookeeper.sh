#!/usr/bin/env bash
# Finds, installs and runs a real ZooKeeper for tests and demonstrations: one
# server on loopback, in the foreground, with all its files in one directory.
# It serves alone, or as a member of an ensemble.
set -euo pipefail
shopt -s inherit_errexit

# The jar's manifest lists its dependencies, but no logging backend.
readonly debian_jars=/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar:/usr/share/java/netty-codec.jar:/usr/share/java/netty-resolver.jar

# The ZooKeepers of other releases of Debian: a server needs this much of them.
readonly -A suites=([3.4]=bullseye [3.9]=trixie)
readonly -A packages=(
	[3.4]="libzookeeper-java libslf4j-java liblog4j1.2-java"
	[3.9]="libzookeeper-java libslf4j-java libdropwizard-metrics-java libnetty-java libsnappy-java"
)
readonly -A jars_of=(
	[3.4]="zookeeper slf4j-api slf4j-simple log4j-1.2"
	[3.9]="zookeeper zookeeper-jute slf4j-api slf4j-simple metrics-core snappy-java
		netty-buffer netty-codec netty-common netty-handler netty-resolver netty-transport
		netty-transport-native-epoll netty-transport-native-unix-common"
)
readonly homes=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/singleworker/zookeeper
readonly java="${JAVA_HOME:+$JAVA_HOME/bin/}java"

usage() {
	cat <<-'END'
		usage: zookeeper.sh COMMAND

		  install        make a ZooKeeper available; does nothing when one is
		  install kazoo  kazoo, too: the client for Python, for the tests of zkdev
		  install curator  Apache Curator, too, and a JDK: for the test of package latch
		  install 3.9    the ZooKeeper of another release of Debian, unpacked and not installed: 3.4 or 3.9; needs python3
		  home 3.9       print the ZOOKEEPER_HOME of that
		  run DIR PORT   run a server on 127.0.0.1:PORT with its files in DIR, until killed
		  run DIR PORT N SERVER...  the same as server N of an ensemble. Each SERVER is where one of
		                 them finds the others, from the first: 127.0.0.1:QUORUM_PORT:ELECTION_PORT.
		                 With a file DIR/read-only it serves reads without a quorum
		  check          print what is missing to run a server and how to install it, if anything
		  version        print the version that run would start

		ZOOKEEPER_HOME names an unpacked Apache ZooKeeper; without it, Debian's
		package is used. JAVA_HOME names the Java runtime; without it, PATH does.
		ZOOKEEPER_HEAP is the heap of a server that is not in an ensemble, which takes
		it at once. Without it the heap grows up to 1g, and collecting is slow meanwhile.
	END
}

# die prints a single line, so that a caller can show it as the reason.
die() {
	printf 'zookeeper.sh: %s\n' "$*" >&2
	exit 1
}

# classpath prints the class path of the ZooKeeper to use, or nothing if there is none.
classpath() {
	if [[ -z "${ZOOKEEPER_HOME:-}" ]]; then
		[[ ! -r ${debian_jars%%:*} ]] || printf '%s' "$debian_jars"
	elif compgen -G "$ZOOKEEPER_HOME/lib/zookeeper-[0-9]*.jar" >/dev/null; then
		printf '%s' "$ZOOKEEPER_HOME/lib/*"
	else
		# A wrong ZOOKEEPER_HOME must not silently test another version.
		die "no ZooKeeper in ZOOKEEPER_HOME=$ZOOKEEPER_HOME (no lib/zookeeper-*.jar): correct it, or unset it and run 'make setup'"
	fi
}

# missing [kazoo|curator] prints the required Debian packages that are not installed, one per line.
missing() {
	local jars
	[[ ${1:-} != kazoo ]] || /usr/bin/python3 -c 'import kazoo' 2>/dev/null || echo python3-kazoo
	if [[ ${1:-} == curator ]]; then
		[[ -r /usr/share/java/curator-recipes.jar ]] || echo libcurator-recipes-java
		command -v javac >/dev/null || echo default-jdk-headless
	fi
	jars=$(classpath)
	[[ -n $jars ]] || echo zookeeper
	if ! command -v "$java" >/dev/null; then
		[[ -z "${JAVA_HOME:-}" ]] || die "no java in JAVA_HOME=$JAVA_HOME (no bin/java): correct it, or unset it and run 'make setup'"
		echo default-jre-headless
	fi
}

install() {
	local list
	list=$(missing "${1:-}")
	[[ -n $list ]] || return 0

	local -a packages
	mapfile -t packages <<<"$list"
	if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
		die "missing: ${packages[*]}. As root: apt-get install --no-install-recommends ${packages[*]}"
	fi

	echo "zookeeper.sh: installing ${packages[*]} with apt-get"
	# The package has only the jars; the service is in zookeeperd.
	local log
	log=$(mktemp)
	# shellcheck disable=SC2064 # the name is wanted as it is now
	trap "rm -f '$log'" EXIT
	export DEBIAN_FRONTEND=noninteractive
	local -a apt=(apt-get -q -y -o DPkg::Lock::Timeout=300)
	if ! { "${apt[@]}" update && "${apt[@]}" install --no-install-recommends "${packages[@]}"; } >"$log" 2>&1 </dev/null; then
		cat "$log" >&2
		die "apt-get could not install ${packages[*]}: see its output above"
	fi
}

# install_other VERSION unpacks a ZooKeeper of another release of Debian into its home, once. apt-get checks the suite's signature and
# the packages' checksums. Manifests of Debian's jars name others by absolute paths, which are those of the release that is installed:
# they are left out.
install_other() {
	local version=$1 home=$homes-$1 suite=${suites[$1]} work list
	! compgen -G "$home/lib/zookeeper-$version.*.jar" >/dev/null || return 0
	[[ -x /usr/bin/python3 ]] && command -v apt-get >/dev/null || die "ZooKeeper $version is unpacked from Debian's packages, with python3. Elsewhere unpack Apache's, and set ZOOKEEPER_HOME"
	local -a download jars
	read -r -a download <<<"${packages[$version]}"
	read -r -a jars -d '' <<<"${jars_of[$version]}" || :
	mkdir -p "${home%/*}"
	work=$(mktemp -d "$home.XXXXXX")
	# shellcheck disable=SC2064 # the name is wanted as it is now
	trap "rm -rf '$work'" EXIT
	mkdir -p "$work"/{lists,cache/archives}/partial "$work"/{packages,root,home/lib}
	list=$work/$suite.list
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main" >"$list"
	local -a apt=(apt-get -q -o Dir::Etc::SourceList="$list" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$work/lists"
		-o Dir::State::Status=/dev/null -o Dir::Cache="$work/cache" -o APT::Sandbox::User= -o Acquire::Languages=none)
	echo "zookeeper.sh: unpacking ZooKeeper $version of Debian $suite into $home"
	if ! { "${apt[@]}" update && cd "$work/packages" && "${apt[@]}" download "${download[@]}"; } >"$work/log" 2>&1 </dev/null; then
		cat "$work/log" >&2
		die "apt-get could not get ${download[*]} of Debian $suite: see its output above"
	fi
	local package
	for package in *.deb; do
		dpkg -x "$package" "$work/root"
	done
	/usr/bin/python3 - "$work" "${jars[@]}" <<-'END'
		import os, sys, zipfile
		work = sys.argv[1]
		for name in sys.argv[2:]:
		    path = os.path.realpath(f"{work}/root/usr/share/java/{name}.jar")
		    with zipfile.ZipFile(path) as jar, zipfile.ZipFile(f"{work}/home/lib/{os.path.basename(path)}", "w") as copy:
		        for entry in jar.infolist():
		            if entry.filename != "META-INF/MANIFEST.MF":
		                copy.writestr(entry, jar.read(entry))
	END
	mv -T "$work/home" "$home"
}

# need_zookeeper sets jars, or dies saying what to install.
need_zookeeper() {
	local list
	list=$(missing)
	[[ -z $list ]] || die "missing: ${list//$'\n'/, }. As root: 'make setup', or apt-get install --no-install-recommends ${list//$'\n'/ }. Otherwise set ZOOKEEPER_HOME to an unpacked Apache ZooKeeper and JAVA_HOME to a Java runtime"
	jars=$(classpath)
}

write_config() {
	local dir=$1 port=$2
	cat >"$dir/zoo.cfg" <<-END
		clientPort=$port
		clientPortAddress=127.0.0.1
		maxClientCnxns=0
		dataDir=$dir/data

		# Sessions are checked once per tick and last 1 s to 30 s, so that a test can wait for
		# one to expire.
		tickTime=500
		minSessionTimeout=1000
		maxSessionTimeout=30000

		# Writes are not synced to disk, which makes them faster: only a power failure could
		# lose data, not a killed server. Who measures writes sets ZOOKEEPER_SYNC=yes.
		forceSync=${ZOOKEEPER_SYNC:-no}
		# The transaction log grows by this many KiB; the default is 64 MiB.
		preAllocSize=1024

		admin.enableServer=false
		4lw.commands.whitelist=ruok,conf,srvr,mntr,cons,dump
	END
	# For Apache's archive; logging of Debian's jars is configured by the -D flags of run.
	cat >"$dir/logback.xml" <<-'END'
		<configuration>
		  <appender name="stderr" class="ch.qos.logback.core.ConsoleAppender">
		    <target>System.err</target>
		    <encoder><pattern>%d{HH:mm:ss.SSS} %p %logger{0}: %m%n</pattern></encoder>
		  </appender>
		  <root level="WARN"><appender-ref ref="stderr"/></root>
		</configuration>
	END
}

# speak_tls DIR makes the server in DIR take TLS, with a client certificate, and plain text on one port. Its own
# certificate, its key and those it trusts are in DIR/tls.pem.
speak_tls() {
	cat >>"$1/zoo.cfg" <<-END
		serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
		client.portUnification=true
		ssl.keyStore.location=$1/tls.pem
		ssl.trustStore.location=$1/tls.pem
		authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider
		ssl.clientAuth=need
		ssl.hostnameVerification=false
	END
}

# serve_reads DIR makes the server in DIR serve reads without a quorum, for which it needs local sessions. Those of
# clients that create ephemeral nodes become others then.
serve_reads() {
	cat >>"$1/zoo.cfg" <<-END
		localSessionsEnabled=true
		localSessionsUpgradingEnabled=true
	END
}

# join_ensemble DIR N SERVER... makes the server in DIR the Nth of an ensemble.
join_ensemble() {
	local dir=$1 number=$2 n=0 server
	shift 2
	echo "$number" >"$dir/data/myid"
	{
		# In ticks: how long a server may take to catch up with the leader, and to answer it.
		echo initLimit=20
		echo syncLimit=6
		for server; do
			n=$((n + 1))
			[[ $server =~ ^127\.0\.0\.1:[0-9]+:[0-9]+$ ]] || die "SERVER must be 127.0.0.1:QUORUM_PORT:ELECTION_PORT, got '$server'"
			echo "server.$n=$server"
		done
	} >>"$dir/zoo.cfg"
	[[ $number =~ ^[1-9][0-9]*$ ]] && ((number <= n)) || die "N must be 1 to $n, got '$number'"
}

run() {
	local jars dir=$1 port=$2
	if ! [[ $port =~ ^[1-9][0-9]{0,4}$ ]] || ((port > 65535)); then
		die "PORT must be 1 to 65535, got '$port'"
	fi
	need_zookeeper
	mkdir -p "$dir/data"
	dir=$(cd "$dir" && pwd)
	write_config "$dir" "$port"
	[[ ! -r $dir/tls.pem ]] || speak_tls "$dir"
	local main=ZooKeeperServerMain
	# A server keeps its last 500 transactions in memory, each of up to 1 MiB; when there is no more, it ends.
	local -a flags=(-Xms32m -Xmx1g)
	[[ -z "${ZOOKEEPER_HEAP:-}" ]] || flags=("-Xms$ZOOKEEPER_HEAP" "-Xmx$ZOOKEEPER_HEAP" -XX:+AlwaysPreTouch)
	if (($# > 2)); then
		join_ensemble "$dir" "${@:3}"
		main=quorum.QuorumPeerMain
		# Servers that were away get the transactions that they missed rather than a snapshot, if
		# possible, so that most logs are complete. They keep these in memory.
		flags=(-Xms32m -Xmx512m -XX:TieredStopAtLevel=1 -Dzookeeper.commitLogCount=100000 -Dzookeeper.snapshotSizeFactor=1)
		if [[ -e $dir/read-only ]]; then
			serve_reads "$dir"
			flags+=(-Dreadonlymode.enabled=true)
		fi
	fi
	# exec, so that this process id is that of the server.
	exec "$java" "${flags[@]}" -XX:+UseSerialGC \
		-Dlogback.configurationFile="$dir/logback.xml" \
		-Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
		-Dorg.slf4j.simpleLogger.showDateTime=true \
		-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS \
		-Dzookeeper.jmx.log4j.disable=true \
		-cp "$jars" "org.apache.zookeeper.server.$main" "$dir/zoo.cfg"
}

check() {
	local jars
	need_zookeeper
}

version() {
	local jars
	need_zookeeper
	"$java" -Dorg.slf4j.simpleLogger.defaultLogLevel=off -cp "$jars" org.apache.zookeeper.Version --short
}

case "${1:-}:$#" in
install:1) install ;;
install:2)
	case $2 in
	kazoo | curator) install "$2" ;;
	*)
		[[ -n ${suites[$2]:-} ]] || die "install knows kazoo, curator, 3.4 and 3.9, not '$2'"
		install_other "$2"
		;;
	esac
	;;
run:3) run "$2" "$3" ;;
run:[5-9]) run "${@:2}" ;;
check:1) check ;;
version:1) version ;;
home:2)
	[[ -n ${suites[$2]:-} ]] || die "home knows 3.4 and 3.9, not '$2'"
	echo "$homes-$2"
	;;
-h:1 | --help:1 | help:1) usage ;;
*)
	usage >&2
	exit 2
	;;
esac
