"""Looks for known vulnerabilities in what is locked, where their database can be reached; else says so in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCKS = ("requirements.lock", "requirements-build.lock")


def main() -> int:
    """Returns 1 if there is a vulnerability, else 0."""
    found = 0
    for lock in LOCKS:
        command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "-r", str(ROOT / lock)]
        done = subprocess.run(
            [*command, "--progress-spinner", "off", "--format", "json"], capture_output=True, text=True
        )
        try:
            packages = json.loads(done.stdout)["dependencies"]
        except (ValueError, KeyError):
            packages = []
        audited = [package for package in packages if "vulns" in package]
        if not audited:
            reason = packages[0]["skip_reason"] if packages else done.stderr.strip().rpartition("\n")[2] or "no answer"
            print(f"{lock} is not audited: the database of vulnerabilities cannot be reached ({reason[:120]})")
            continue
        for package in audited:
            for vulnerability in package["vulns"]:
                fixed = ", ".join(vulnerability["fix_versions"]) or "no version"
                print(f"{package['name']} {package['version']}: {vulnerability['id']}, fixed in {fixed}")
                found += 1
        print(f"{lock}: {len(audited)} of {len(packages)} packages audited")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
