#!/usr/bin/env bash
# Checks the alert rules, and the queries of the dashboard, with Prometheus' promtool. As root on Debian it installs promtool if it is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

if ! command -v promtool >/dev/null; then
	if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
		echo "promtool.sh: promtool is missing. It is part of Prometheus (https://prometheus.io/download/) and of Debian's package prometheus" >&2
		exit 1
	fi
	echo "promtool.sh: installing prometheus with apt-get"
	export DEBIAN_FRONTEND=noninteractive
	apt=(apt-get -q -y -o DPkg::Lock::Timeout=300)
	"${apt[@]}" update >/dev/null
	# promtool is wanted, not the service.
	RUNLEVEL=1 "${apt[@]}" install --no-install-recommends prometheus >/dev/null
fi
promtool check rules alerts.yml
promtool test rules alerts_test.yml

# promtool reads queries in rules alone, so the dashboard's become rules, with values for Grafana's variables.
queries=$(mktemp --suffix .yml)
trap 'rm -f "$queries"' EXIT
{
	printf 'groups:\n- name: dashboard\n  rules:\n'
	sed -n 's/\$__rate_interval/5m/g; s/\$server_type/x/g; s/\$job_name/.*/g; s/^ *"expr": \(".*"\),*$/\1/p' dashboard.json |
		awk '{printf "  - record: dashboard:query:%d\n    expr: %s\n", NR, $0}'
} >"$queries"
promtool check rules "$queries"
