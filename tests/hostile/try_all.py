import sys, time, tempfile, re, resource
from pathlib import Path
from tests.hostile.arena import arena
from tests.hostile.declared import declared
pat = re.compile(sys.argv[1] if len(sys.argv)>1 else "")
show = len(sys.argv)>2
with tempfile.TemporaryDirectory() as f, arena(Path(f)) as a:
    for h in declared():
        if not pat.search(h.target): continue
        e=h.expected
        t=time.time()
        try:
            o=a.scan(h.target, "--select", e.select, "--timeout", str(e.timeout), *e.options, makes=e.makes)
        except EOFError:
            print("LOST", h.name); break
        ok = list(o.failed)==([e.code] if e.code else []) and (not e.code or e.words in o.failed[e.code])
        bad=[]
        if not ok: bad.append(f"expected {e.code} {e.words!r}: {[(k,v[:150]) for k,v in o.failed.items()]}")
        if o.left: bad.append(f"left {o.left}")
        if "broken" in o.statuses: bad.append("BROKEN "+ [r["reason"] for r in o.results if r["status"]=="broken"][0][-600:])
        if "Traceback" in o.screen: bad.append("TRACEBACK")
        if o.code not in (0,1): bad.append(f"exit {o.code}")
        if not e.code and not {"passed","failed"}&o.statuses: bad.append(f"undecided {[(r['code'],r['status'],r['reason'][:200]) for r in o.results]}")
        if "\x1b]0;" in o.screen or "\x1bc" in o.screen: bad.append("ESCAPES")
        print(f"{'OK ' if not bad else 'BAD'} {h.target.split('_',1)[1]:60} {o.seconds:5.1f} code={o.code} {list(o.failed)} {o.statuses}", flush=True)
        for b in bad: print("     ", b[:1500])
        if show or o.report is None: print(o.screen)
print(resource.getrusage(resource.RUSAGE_CHILDREN))
