"""The tests of the chart: `main.py --helm PROGRAM --modules FOLDER --program PUNCTUAL [--write]`.

MODULES is the folder with node_modules in it. --write replaces the snapshots of the value sets, for
review. The exit status is 0 only if every check ran and found nothing.
"""

import argparse
import sys
import time
import traceback

import yaml

import metrics
import objects
import programs
import rendering
import settings
import tools
from chart import CHART, ROOT, Helm3


def check_version():
    """Checks that the chart has the version of the program."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    line = next(it for it in (ROOT / "Cargo.toml").read_text().splitlines() if it.startswith("version"))
    if chart["appVersion"] != line.split('"')[1]:
        yield f"Chart.yaml: appVersion is {chart['appVersion']}, Cargo.toml says {line}"


def main():
    """Runs all checks."""
    parser = argparse.ArgumentParser()
    for option in ("--helm", "--modules", "--program"):
        parser.add_argument(option, required=True)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    helm3 = Helm3(given.helm)
    checks = {
        "the version of the chart": check_version(),
        "settings in the schema": settings.check(),
        "snapshots": rendering.check_snapshots(helm3, given.write),
        "schemas of Kubernetes": rendering.check_schemas(helm3),
        "helm lint": rendering.check_lint(helm3),
        "refusals": rendering.check_refusals(helm3),
        "objects": objects.check(helm3),
        "checkov": tools.check_checkov(helm3),
        "types of dashboards": tools.check_types(given.modules),
        "dashboards": metrics.check_dashboards(),
        "dashboards in ConfigMaps": tools.check_wrapped_dashboards(helm3),
        "queries": metrics.check_queries(given.modules),
        "alerts": metrics.check_alerts(),
        "rules": tools.check_rules(helm3),
        "commands": programs.check_commands(helm3, given.program),
        "configuration": programs.check_configuration(helm3, given.program),
        "Compose file": tools.check_compose(given.program),
        "helm test": programs.check_helm_test(helm3, given.program),
    }
    failed = 0
    for name, findings in checks.items():
        start = time.monotonic()
        try:
            found = list(findings)
        except Exception:  # A check that raises counts as failed, and the others still run.
            found = [traceback.format_exc()]
        print(f"{'FAILED' if found else 'ok':7}{name} ({time.monotonic() - start:.1f} s)", flush=True)
        for finding in found:
            print(f"       {finding}", flush=True)
        failed += bool(found)
    print(f"test result: {'FAILED' if failed else 'ok'}. {len(checks) - failed} passed; {failed} failed; of the chart")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
