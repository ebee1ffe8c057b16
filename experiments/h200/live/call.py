#!/usr/bin/env python3
"""`call` without the library and under each policy of `sim serve`, in turns: call.py SIM OUT.json FOLDER TURNS POLICY...    POLICY/be: as a best-effort program, else real-time"""
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def main(sim, path, folder, turns, *policies):
    os.makedirs(folder, exist_ok=True)
    program, data = folder + "/call", []
    subprocess.run(["nvcc", "-O2", "-arch=native", "-o", program, HERE + "/call.cu"], check=True)
    for turn in range(int(turns)):
        for policy in ("none", "mps", *policies):
            at, before, service = folder + "/service", [], None
            environment = dict(os.environ)
            if policy != "none":  # plain MPS is that of a service whose library is left out
                service = subprocess.Popen([sim, "serve", "--policy=" + policy.replace("mps", "fcfs").removesuffix("/be"), "--at", at], stderr=subprocess.PIPE, stdout=subprocess.PIPE)
                while not os.path.exists(at + "/environment"):
                    time.sleep(0.01)
                before = [sim, "run", "--at", at, *([] if policy.endswith("/be") else ["--class=real_time"]), "--"]
                if policy == "mps":
                    with open(at + "/environment") as file:
                        environment |= dict(line.strip().split("=", 1) for line in file if line.startswith("CUDA"))
                    before = []
            out = subprocess.run([*before, program], capture_output=True, text=True, env=environment).stdout
            row = {"policy": policy, "turn": turn, "said": [json.loads(line) for line in out.splitlines()]}
            if service is not None:
                row["service"] = json.loads(subprocess.run([sim, "top", "--json", "--at", at], capture_output=True, text=True).stdout)
                service.terminate()
                service.communicate()
            data.append(row)
            print(policy, turn, {s["what"]: s["p50_us"] for s in row["said"]}, {s["what"]: s.get("p99_us") for s in row["said"]}, row.get("service", {}).get("decision_us"), flush=True)
            with open(path, "w") as file:
                json.dump(data, file, indent=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
