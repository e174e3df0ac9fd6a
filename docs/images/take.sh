#!/bin/sh
# Takes the pictures of README and docs from the story of the demo: take.sh PATH/TO/backcast. Needs Chromium.
set -eu
bin=$(cd "$(dirname "$1")" && pwd)
images=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
service=
trap '[ -z "$service" ] || kill "$service"; rm -rf "$work"' EXIT
cp -r "$images/../../sample_data/story/mixpanel" "$work/exports"
cd "$work"

shoot() {  # name, address, height
    chromium --headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run --hide-scrollbars \
        --force-device-scale-factor=1.5 --window-size="1100,$3" --virtual-time-budget=3000 --screenshot="$images/$1.png" "$2"
}

"$bin/backcast" survey exports --report survey.html > survey.txt
shoot survey "file://$work/survey.html" 1040

"$bin/backcast" demo -o demo
shoot report "file://$work/demo/mixpanel/report.html" 780

plan="plan exports -m mixpanel --timezone Europe/Berlin --timezone America/New_York@2024-06-01 --set groups=team --max-rejects 0.1%"
FORCE_COLOR=1 COLUMNS=110 "$bin/backcast" $plan --for eu -o plan 2> messages.txt > plan.txt
"$bin/python" - "$images/terminal.svg" "$plan --for eu -o plan" <<'EOF'
import sys
from rich.console import Console
from rich.text import Text
console = Console(record=True, width=110, file=open("/dev/null", "w"))
console.print(Text(f"$ backcast {sys.argv[2]}", style="bold"))
console.print(Text.from_ansi(open("plan.txt", encoding="utf-8").read()))
console.save_svg(sys.argv[1], title="backcast plan")
EOF

port=8733
"$bin/backcast" service --port $port > service.txt 2>&1 &
service=$!
until grep -q "phx_" service.txt; do sleep 0.2; done
sed -n 's/.*\(phc_[A-Za-z0-9_]*\).*/\1/p' service.txt | head -n 1 > capture-key
chmod 600 capture-key
"$bin/backcast" $plan --for "http://127.0.0.1:$port" -o local -q
"$bin/backcast" apply local --to "http://127.0.0.1:$port" --project-key-file capture-key -q
sleep 5  # the service still processes persons
shoot service "http://127.0.0.1:$port/" 900
