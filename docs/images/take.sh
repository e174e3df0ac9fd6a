#!/bin/sh
# Takes the pictures of README and docs from the demo's story: take.sh PATH/TO/backcast. Needs Chromium.
set -eu
bin=$(cd "$(dirname "$1")" && pwd)
images=$(cd "$(dirname "$0")" && pwd)
story=$images/../../sample_data/story/mixpanel
work=$(mktemp -d)
service=
trap '[ -z "$service" ] || kill "$service"; rm -rf "$work"' EXIT
cd "$work"

shoot() {  # name, address, height
    chromium --headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run --hide-scrollbars \
        --force-device-scale-factor=1.5 --window-size="1100,$3" --virtual-time-budget=3000 --screenshot="$images/$1.png" "$2"
}

zones="--timezone Europe/Berlin --timezone America/New_York@2024-06-01"
"$bin/backcast" survey "$story" --report survey.html -q
"$bin/backcast" demo -o demo
shoot report "file://$work/demo/mixpanel/report.html" 780
shoot survey "file://$work/survey.html" 900

port=8733
"$bin/backcast" service --port $port > service.txt 2>&1 &
service=$!
until grep -q "phx_" service.txt; do sleep 0.2; done
sed -n 's/.*\(phc_[A-Za-z0-9_]*\).*/\1/p' service.txt | head -n 1 > capture-key
sed -n 's/.*\(phx_[A-Za-z0-9_]*\).*/\1/p' service.txt | head -n 1 > personal-key
chmod 600 capture-key personal-key
plan() {
    "$bin/backcast" plan "$story" -m mixpanel $zones --set groups=team --max-rejects 0.1% --for "http://127.0.0.1:$port" -o plan "$@"
}
FORCE_COLOR=1 COLUMNS=110 plan --log-format text 2> /dev/null > plan.txt || true
"$bin/python" - "$images/terminal.svg" <<'EOF'
import sys
from rich.console import Console
from rich.text import Text
console = Console(record=True, width=110, file=open("/dev/null", "w"))
console.print("[bold]$ backcast plan exports/ -m mixpanel --for eu -o plan[/bold]")
console.print(Text.from_ansi(open("plan.txt", encoding="utf-8").read()))
console.save_svg(sys.argv[1], title="backcast")
EOF
"$bin/backcast" apply plan --to "http://127.0.0.1:$port" --project-key-file capture-key -q > /dev/null
shoot service "http://127.0.0.1:$port/" 900
