"""How long does a program stand still whose service is stopped for 10 s, or killed?  stopped.py SIM, on a GPU with torch.

One JSON line a case, to standard output and $OUT/stopped.jsonl: of two programs that multiply for 14 s the steps, the longest step and the
exit code.
"""
import json, os, signal, subprocess, sys, tempfile, time
SIM = os.path.abspath(sys.argv[1])
PROG = """
import torch, time, json, sys
x = torch.randn(2048, 2048, device='cuda'); y = x @ x; torch.cuda.synchronize()
t = time.time(); worst = 0; n = 0
while time.time() - t < 14:
    b = time.time(); y = x @ x; torch.cuda.synchronize(); worst = max(worst, time.time() - b); n += 1
print(json.dumps({'steps': n, 'worst_s': round(worst, 3)}))
"""
out = open(os.environ.get("OUT", ".") + "/stopped.jsonl", "w")
def case(name, policy, act):
    at = tempfile.mkdtemp(prefix="s-") + "/c"
    said = open(at + ".log", "w")
    cmd = [SIM, "serve", "--policy=" + policy, "--at", at]
    s = subprocess.Popen(cmd, stdout=said, stderr=subprocess.STDOUT)
    time.sleep(4)
    ps = [subprocess.Popen([SIM, "run", "--at", at, *w, "--", sys.executable, "-c", PROG], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for w in ([], ["--class=real_time"])]
    time.sleep(9)
    act(s)
    r = []
    for p in ps:
        try:
            o, e = p.communicate(timeout=60); r.append({"exit": p.returncode, "out": o.strip()[-200:], "said": [l for l in e.splitlines() if "corun" in l][-3:], "err": e[-300:] if p.returncode else ""})
        except subprocess.TimeoutExpired:
            p.kill(); r.append({"exit": "hang"})
    row = {"case": name, "policy": policy, "programs": r, "service": s.poll()}
    try: s.send_signal(signal.SIGCONT); s.terminate(); s.wait(10)
    except Exception as x: s.kill()
    row["log"] = open(at + ".log").read()[-500:]
    print(json.dumps(row), flush=True); out.write(json.dumps(row) + "\n"); out.flush()
def stop(s):
    s.send_signal(signal.SIGSTOP); time.sleep(10); s.send_signal(signal.SIGCONT)
for policy in ("wait", "priority"):
    for name, act in (("nothing", lambda s: None), ("stopped for 10 s", stop), ("killed", lambda s: s.kill())):
        try: case(name, policy, act)
        except Exception as x: print(json.dumps({"case": name, "policy": policy, "error": repr(x)}), flush=True)
