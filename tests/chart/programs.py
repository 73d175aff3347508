"""Checks the chart with the program: commands, configuration, and a real run of `helm test`."""

import os
import pathlib
import socket
import subprocess
import tempfile
import time
import urllib.request

from chart import pods, value_sets
from rendering import SNAPSHOT

# The replacements for the content of Secrets.
SECRETS = {
    "PUNCTUAL_STORE_URL": "postgres://punctual@db:5432/punctual",
    "PUNCTUAL_QUEUE_URL": "redis://redis:6379",
    "PUNCTUAL_CLUSTER_URL": "etcd://etcd:2379",
}


def is_own(container):
    """Returns `True` if the container uses the image of the service."""
    return "command" not in container


def check_commands(helm3, program):
    """Checks that each container of the service calls a command that exists."""
    used = set()
    for name, values in value_sets().items():
        for owner, pod in pods(helm3.render(values, SNAPSHOT)):
            for container in pod["spec"].get("initContainers", []) + pod["spec"]["containers"]:
                if is_own(container):
                    used.add((container["args"][0], f"{name}: {owner['metadata']['name']}"))
    for command in sorted({command for command, _ in used}):
        done = subprocess.run([program, command, "--help"], capture_output=True, check=False)
        place = next(place for other, place in used if other == command)
        if done.returncode != 0:
            yield f"{place}: there is no command {command}"


def environment(container, pod, objects, folder):
    """Returns the environment of a container, with files in a folder instead of mounted ones."""
    maps = {it["metadata"]["name"]: it for it in objects if it["kind"] == "ConfigMap"}
    (folder / "key").write_text("k1:" + "A" * 43 + "=\n")
    (folder / "key").chmod(0o600)
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    for variable in container["env"]:
        name = variable["name"]
        value = SECRETS[name] if "valueFrom" in variable else variable["value"]
        if name == "PUNCTUAL_CONFIG":
            volume = next(v for v in pod["spec"]["volumes"] if v["name"] == "configuration")
            value = str(folder / "punctual.toml")
            pathlib.Path(value).write_text(maps[volume["configMap"]["name"]]["data"]["punctual.toml"])
        elif name == "PUNCTUAL_SECRETS_KEYS_FILE":
            value = str(folder / "key")
        elif name.endswith("_PASSWORD_FILE"):
            value = str(folder / "password")
            pathlib.Path(value).write_text("secret\n")
        elif name.endswith("_CA_FILE"):
            value = certificate(folder)
        env[name] = value
    return env


def certificate(folder):
    """Returns a certificate authority, created with openssl."""
    path = folder / "ca.crt"
    if not path.exists():
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        command += ["-nodes", "-subj", "/CN=test", "-keyout", str(folder / "ca.key"), "-out", str(path)]
        subprocess.run(command, check=True, capture_output=True)
    return str(path)


def check_configuration(helm3, program):
    """Checks that the service accepts the configuration of each Pod without a warning."""
    for name, values in value_sets().items():
        objects = helm3.render(values, SNAPSHOT)
        for owner, pod in pods(objects):
            container = pod["spec"]["containers"][0]
            if not is_own(container) or container["args"] != ["serve"]:
                continue
            with tempfile.TemporaryDirectory() as folder:
                env = environment(container, pod, objects, pathlib.Path(folder))
                done = subprocess.run(
                    [program, "config"], env=env, cwd=folder, capture_output=True, text=True, check=False
                )
            if done.returncode != 0 or done.stderr:
                yield f"{name}: {owner['metadata']['name']}: the service says: {done.stderr}"


def free_port():
    """Returns a free port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def wait_until_ready(program, env):
    """Waits until the service is ready."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if subprocess.run([program, "healthcheck"], env=env, capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.1)
    raise RuntimeError("the service is not ready after 30 seconds")


def check_helm_test(helm3, program):
    """Checks that the script of `helm test` passes with a service that works, and fails with a faulty one."""
    objects = helm3.render(value_sets()["embedded-existing"], SNAPSHOT)
    pod = next(pod for owner, pod in pods(objects) if owner["kind"] == "Pod")
    script = pod["spec"]["containers"][0]["args"][0]
    api, operations = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        env = {
            "PATH": os.environ["PATH"],
            "PUNCTUAL_DATA_DIR": f"{folder}/data",
            "PUNCTUAL_HTTP_LISTEN": f"127.0.0.1:{api}",
            "PUNCTUAL_OPS_LISTEN": f"127.0.0.1:{operations}",
            "PUNCTUAL_LOG": "warn",
        }
        with open(f"{folder}/log", "w", encoding="utf-8") as log:
            service = subprocess.Popen([program, "dev"], env=env, stdout=log, stderr=log)
        try:
            wait_until_ready(program, env)
            command = [program, "key", "create", "--account", "dev"]
            key = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
            pathlib.Path(f"{folder}/key").write_text(key)
            pathlib.Path(f"{folder}/wrong").write_text("pnc_wrong\n")
            url, echo = f"http://127.0.0.1:{api}", f"http://127.0.0.1:{operations}/echo"
            cases = {
                "a target that answers": ({"URL": url, "KEY_FILE": f"{folder}/key", "TARGET": echo}, 0, "it has run"),
                "a target that is not there": (
                    {"URL": url, "KEY_FILE": f"{folder}/key", "TARGET": f"http://127.0.0.1:{operations}/gone"},
                    1,
                    "it has run and failed",
                ),
                "a key that is none": ({"URL": url, "KEY_FILE": f"{folder}/wrong", "TARGET": echo}, 1, "was answered with"),
                "no key": ({"URL": url}, 0, "no schedule was made"),
                "no service": ({"URL": f"http://127.0.0.1:{free_port()}"}, None, "curl"),
            }
            running = {name: start(script, variables) for name, (variables, _, _) in cases.items()}
            for name, (_, status, says) in cases.items():
                output, _ = running[name].communicate(timeout=150)
                got = running[name].returncode
                wrong = got == 0 if status is None else got != status
                if wrong or says not in output:
                    yield f"helm test, {name}: status {got}: {output}"
            if service.poll() is not None:
                yield f"the service has ended: {pathlib.Path(f'{folder}/log').read_text()}"
                return
            left = schedules(url, key.strip())
            if "helm test" in left:
                yield f"helm test leaves its schedule: {left}"
        finally:
            service.terminate()
            service.wait(60)


def start(script, variables):
    """Runs the script as the Pod does."""
    env = {"PATH": os.environ["PATH"]} | variables
    return subprocess.Popen(
        ["sh", "-c", script], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def schedules(url, key):
    """Returns the schedules that the API lists."""
    request = urllib.request.Request(f"{url}/v1/schedules", headers={"x-api-key": key})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()
