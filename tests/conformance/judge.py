"""Judges a run of the conformance suite: python3 judge.py WANTED RESULTS

WANTED has a scenario a line; behind it, checks of it that may fail because they want a tool that
exists for the suite only. Each such check must be there and fail, so that the list stays true.
"""

import json
import pathlib
import sys

wanted, results = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
bad = 0
for line in wanted.read_text().splitlines():
    if not line or line.startswith("#"):
        continue
    scenario, *excepted = line.split()
    name = f"conformance::{wanted.stem}::{scenario}"
    found = [path for path in results.glob(f"server-{scenario}-2*/checks.json")]
    checks = json.loads(found[0].read_text()) if len(found) == 1 else []
    failures = {check["id"]: check for check in checks if check["status"] == "FAILURE"}
    passes = [check for check in checks if check["status"] == "SUCCESS"]
    complaints = [
        f"{key}: {check.get('errorMessage')}" for key, check in failures.items() if key not in excepted
    ]
    complaints += [f"{key} no longer fails: take it off the list" for key in set(excepted) - set(failures)]
    if not passes:
        complaints.append("no check of it passed, or it did not run")
    bad += bool(complaints)
    print(f"{'FAILED' if complaints else 'ok'}  {name}")
    for complaint in complaints:
        print(f"    {complaint}")
sys.exit(bool(bad))
