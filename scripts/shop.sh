#!/usr/bin/env bash
# shop.sh [orders]
# shop.sh --burst [orders]
#
# The example shop of examples/shop under fire, in PHP and Go, against PostgreSQL and MariaDB:
# orders (4,000) come at 30 a second while a program is killed every second, and Redis and the
# database die by turns. Ends with the accounting and its figures. With --burst: orders (1,000)
# that fall due at once, five closers in PHP, one killed each second, with four choices of COUNT
# and lease. Needs a release build and what scripts/setup.sh --tests installs.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

test=under_fire
orders=4000
if [ "${1:-}" = --burst ]; then
  test=burst
  orders=1000
  shift
fi
orders=${1:-$orders}
case $orders in
  '' | *[!0-9]*) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 2 ;;
esac
export ORDERWHEEL_MODULE=${ORDERWHEEL_MODULE:-$module}
export ORDERWHEEL_SHOP_ORDERS=$orders
cd "$root"
"${PYTHON:-$target/venv/bin/python}" -m pytest -c tests/e2e/pytest.ini tests/e2e/test_shop.py -k "$test" -s \
  --timeout $((orders + 600))
