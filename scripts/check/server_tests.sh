#!/usr/bin/env bash
# scripts/check/server_tests.sh
#
# Tests the remote cache with real servers, nginx and S3 by moto, and the counts with Prometheus's
# reader. scripts/build/setup_servers.sh fetches them. None of these tests may skip.

set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../build/common.sh"
[[ ${1:-} != -h && ${1:-} != --help ]] || { print_help; exit 0; }
cd "$ROOT"

readonly SERVERS=$ROOT/build/servers
scripts/build/setup_servers.sh --to "$SERVERS"
export PATH=$SERVERS/nginx/usr/sbin:$SERVERS/python/bin:$PATH
PYTHONPATH=$(echo "$SERVERS"/python/lib/python3*/site-packages)
export PYTHONPATH
export SPJIT_MUST_RUN="cli.remote_servers_test cli.cache_why_test" SPJIT_MAY_SKIP='^$'
scripts/test.sh -R '^cli\.(remote_servers|cache_why)_test$'
