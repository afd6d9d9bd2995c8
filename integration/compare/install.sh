#!/usr/bin/env bash
# Installs the servers and the Java libraries that package compare needs, if they are missing.
set -euo pipefail

readonly packages=(redis-server postgresql libquartz2-java libhikaricp-java libpostgresql-jdbc-java libslf4j-java)

missing=()
for package in "${packages[@]}"; do
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$package")
done
command -v javac >/dev/null || missing+=(default-jdk-headless)
((${#missing[@]})) || exit 0
if ((EUID != 0)); then
	echo "install.sh: missing: ${missing[*]}. As root: apt-get install --no-install-recommends ${missing[*]}" >&2
	exit 1
fi
echo "install.sh: installing ${missing[*]} with apt-get"
export DEBIAN_FRONTEND=noninteractive
apt=(apt-get -q -y -o DPkg::Lock::Timeout=300)
"${apt[@]}" update >/dev/null
# Its service would take memory and a port; the test starts its own.
RUNLEVEL=1 "${apt[@]}" install --no-install-recommends "${missing[@]}" >/dev/null
