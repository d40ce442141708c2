while pgrep -f "probe_e/scan.py bad" >/dev/null; do sleep 2; done
python /tmp/probe_e/scan.py h1_ h2_ h3_ > /tmp/probe_e/scan_h.txt 2>&1
python /tmp/probe_e/scan.py good > /tmp/probe_e/scan_good.txt 2>&1
