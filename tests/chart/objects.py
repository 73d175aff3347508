"""Checks of the rendered objects that schemas cannot express: relations and promises."""

from chart import pods, value_sets
from rendering import SNAPSHOT

# The sections of settings with the addresses of servers and the credentials for them.
HOOK_SECTIONS = ("CONFIG", "QUEUE", "CLUSTER", "SECRETS", "MAIL")


def check(helm3):
    """Yields the faults of all value sets, as sentences."""
    for name, values in value_sets().items():
        objects = helm3.render(values, SNAPSHOT)
        for rule in (references, services, doors, security, stops, outbound, hooks):
            for complaint in rule(objects, values):
                yield f"{name}: {complaint}"


def named(objects, kind):
    """Returns the objects of a kind, by name."""
    return {item["metadata"]["name"]: item for item in objects if item["kind"] == kind}


def matches(selector, pod):
    """Returns `True` if labels select a Pod."""
    return selector.items() <= pod["metadata"]["labels"].items()


def is_replica(pod):
    """Returns `True` for a Pod of the service, and `False` for a Pod of a hook or a test."""
    return pod["spec"]["containers"][0]["args"] == ["serve"]


def comes_before(item, owner):
    """Returns `True` if a hook's object exists before the hook runs."""
    first, then = (it["metadata"].get("annotations", {}) for it in (item, owner))
    weight = "helm.sh/hook-weight"
    same = first.get("helm.sh/hook") == then["helm.sh/hook"]
    return same and int(first[weight]) < int(then[weight])


def references(objects, values):
    """Checks that objects of the chart that a Pod names exist, and that earlier hooks need none of them."""
    accounts, maps = named(objects, "ServiceAccount"), named(objects, "ConfigMap")
    for owner, pod in pods(objects):
        account = pod["spec"]["serviceAccountName"]
        if account not in accounts and values.get("serviceAccount", {}).get("create", True):
            yield f"{owner['metadata']['name']}: there is no ServiceAccount {account}"
        hook = owner["metadata"].get("annotations", {}).get("helm.sh/hook", "")
        if hook.startswith("pre-"):
            first = accounts[account]["metadata"].get("annotations", {})
            if first.get("helm.sh/hook") != hook:
                yield f"{owner['metadata']['name']}: its ServiceAccount comes after it"
            for volume in pod["spec"].get("volumes", []):
                map_ = maps.get(volume.get("configMap", {}).get("name"))
                if map_ and not comes_before(map_, owner):
                    yield f"{owner['metadata']['name']}: a ConfigMap comes after it"
        elif is_replica(pod):
            mounted = {v["configMap"]["name"] for v in pod["spec"]["volumes"] if "configMap" in v}
            if not mounted & set(maps):
                yield f"{owner['metadata']['name']}: does not mount its configuration"
    for autoscaler in named(objects, "HorizontalPodAutoscaler").values():
        target = named(objects, "Deployment").get(autoscaler["spec"]["scaleTargetRef"]["name"])
        if target is None:
            yield "an autoscaler scales nothing"
        elif "replicas" in target["spec"]:
            yield f"{target['metadata']['name']} sets replicas and so overrides its autoscaler"


def services(objects, _):
    """Checks that Services, budgets and policies select replicas: the API's Service those that serve it."""
    templates = [pod for _, pod in pods(objects)]
    for name, service in named(objects, "Service").items():
        chosen = [pod for pod in templates if matches(service["spec"]["selector"], pod)]
        if not chosen or not all(is_replica(pod) for pod in chosen):
            yield f"Service {name} selects {len(chosen)} kinds of Pods, or Pods that do not serve it"
        for port in service["spec"]["ports"]:
            for pod in chosen:
                ports = {it["name"] for it in pod["spec"]["containers"][0]["ports"]}
                if port["targetPort"] not in ports:
                    yield f"Service {name}: a Pod has no port {port['targetPort']}"
    for kind in ("NetworkPolicy", "PodDisruptionBudget"):
        for name, item in named(objects, kind).items():
            key = "podSelector" if kind == "NetworkPolicy" else "selector"
            if not any(matches(item["spec"][key]["matchLabels"], pod) for pod in templates):
                yield f"{kind} {name} selects nothing"
    if named(objects, "NetworkPolicy"):
        selectors = [it["spec"]["podSelector"] for it in named(objects, "NetworkPolicy").values()]
        for owner, pod in pods(objects):
            if not any(matches(selector["matchLabels"], pod) for selector in selectors):
                yield f"{owner['metadata']['name']}: no NetworkPolicy selects it"


def doors(objects, _):
    """Checks that routes, Ingresses and monitors lead to a Service of the chart and a port of it."""
    known = {
        (name, port[key])
        for name, service in named(objects, "Service").items()
        for port in service["spec"]["ports"]
        for key in ("name", "port")
    }
    for ingress in named(objects, "Ingress").values():
        for rule in ingress["spec"]["rules"]:
            for path in rule["http"]["paths"]:
                backend = path["backend"]["service"]
                if (backend["name"], backend["port"]["name"]) not in known:
                    yield f"the Ingress leads to {backend}"
    for route in named(objects, "HTTPRoute").values():
        for backend in route["spec"]["rules"][0]["backendRefs"]:
            if (backend["name"], backend["port"]) not in known:
                yield f"the HTTPRoute leads to {backend}"
    for monitor in named(objects, "ServiceMonitor").values():
        labels = monitor["spec"]["selector"]["matchLabels"]
        chosen = [
            name
            for name, service in named(objects, "Service").items()
            if labels.items() <= service["metadata"]["labels"].items()
        ]
        port = monitor["spec"]["endpoints"][0]["port"]
        if [(name, port) in known for name in chosen] != [True]:
            yield f"the ServiceMonitor selects {chosen}, port {port}"


def security(objects, _):
    """Checks the requirements of restricted Pod Security, and more: no token, a read-only image."""
    for owner, pod in pods(objects):
        name, spec = owner["metadata"]["name"], pod["spec"]
        if spec["automountServiceAccountToken"] is not False or spec["enableServiceLinks"] is not False:
            yield f"{name} gets a token, or variables of Services"
        if spec["securityContext"]["seccompProfile"] != {"type": "RuntimeDefault"}:
            yield f"{name} has no seccomp profile"
        for container in spec["containers"] + spec.get("initContainers", []):
            context = container["securityContext"]
            good = (
                context["runAsNonRoot"] is True
                and context["readOnlyRootFilesystem"] is True
                and context["allowPrivilegeEscalation"] is False
                and context["capabilities"] == {"drop": ["ALL"]}
            )
            if not good:
                yield f"{name}: {container['name']} may do more than restricted Pods"
            if not container["resources"].get("requests") or "memory" not in container["resources"]["limits"]:
                yield f"{name}: {container['name']} has no resources"


def stops(objects, _):
    """Checks that the termination period of a Pod covers all its steps."""
    for owner, pod in pods(objects):
        if not is_replica(pod):
            continue
        container = pod["spec"]["containers"][0]
        env = {it["name"]: it.get("value") for it in container["env"]}
        grace = int(env["PUNCTUAL_SHUTDOWN_GRACE_SECONDS"])
        drain = int(env["PUNCTUAL_SHUTDOWN_DRAIN_SECONDS"])
        wait = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        period = pod["spec"]["terminationGracePeriodSeconds"]
        if not drain <= grace < period - wait:
            yield f"{owner['metadata']['name']}: {wait} + {grace} s do not fit into {period} s"
        if owner["kind"] == "Deployment":
            update = owner["spec"]["strategy"]["rollingUpdate"]
            if update["maxUnavailable"] != 0:
                yield f"{owner['metadata']['name']}: an update takes a replica away before it adds one"


def outbound(objects, _):
    """Checks that the service and the NetworkPolicy of replicas that call targets allow the same addresses."""
    policies = named(objects, "NetworkPolicy").values()
    for owner, pod in pods(objects):
        if not is_replica(pod) or not policies:
            continue
        env = {it["name"]: it.get("value") for it in pod["spec"]["containers"][0]["env"]}
        allowed = set(filter(None, env.get("PUNCTUAL_OUTBOUND_ALLOW", "").split(",")))
        policy = next(it for it in policies if matches(it["spec"]["podSelector"]["matchLabels"], pod))
        blocks = [
            peer["ipBlock"]
            for rule in policy["spec"]["egress"]
            if "ports" not in rule
            for peer in rule.get("to", [])
            if "ipBlock" in peer
        ]
        whole = {block["cidr"] for block in blocks if "except" not in block}
        named_ones = {it if "/" in it else it + ("/128" if ":" in it else "/32") for it in allowed}
        calls = env["PUNCTUAL_ROLES"] != "scheduler"
        if whole != (named_ones if calls else set()):
            yield f"{owner['metadata']['name']}: the policy opens {whole}, the service {allowed}"
        for block in blocks:
            if block["cidr"] == "0.0.0.0/0" and "10.0.0.0/8" not in block["except"]:
                yield f"{owner['metadata']['name']} reaches private networks"


def hooks(objects, _):
    """Checks that hooks have the configuration of the replicas."""
    maps = named(objects, "ConfigMap")
    replicas = [pod for _, pod in pods(objects) if is_replica(pod)]
    for owner, pod in pods(objects):
        if not owner["metadata"]["name"].endswith("-migration"):
            continue
        name = owner["metadata"]["name"].removesuffix("-migration")
        lines = [
            [line for line in maps[it]["data"]["punctual.toml"].splitlines() if line[:1] != "#"]
            for it in (name, f"{name}-hook")
        ]
        if lines[0] != lines[1]:
            yield f"{name}-hook: the configuration differs from that of the replicas"
        env = [it for it in replicas[0]["spec"]["containers"][0]["env"]]
        shared = [it for it in env if it["name"].split("_")[1] in HOOK_SECTIONS]
        for container in pod["spec"].get("initContainers", []) + pod["spec"]["containers"]:
            missing = [it["name"] for it in shared if it not in container["env"]]
            if missing:
                yield f"{name}: {container['name']} does not have {missing}"
