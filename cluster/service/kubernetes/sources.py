"""Where nodes, pods and what they use are read: files, or an API server, which also evicts pods."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

import attrs
import httpx

from cluster.service.events import RequestError, decoded
from cluster.service.kubernetes.pods import KubernetesNode, Listed, Pod, PodMetrics, Resources
from plb.errors import InvalidValueError, PlbError

Item = TypeVar("Item")
METRICS = "/apis/metrics.k8s.io/v1beta1/pods"
SECONDS = 30.0
"""How long an answer may take."""
MOST_SHOWN = 500
"""Bytes of an answer that are shown."""


class Observed(NamedTuple):
    """A cluster as it was read."""

    nodes: list[KubernetesNode]
    pods: list[Pod]
    usages: Sequence[tuple[float | None, dict[str, Resources]]]
    """Times in seconds since 1970, the oldest first, with what each pod used, by namespace and name; None: now."""


def listed(data: bytes, kind: type[Item], source: str) -> list[Item]:
    """Return a list of objects from JSON; `source` names it in errors."""
    try:
        items: list[Item] = decoded(data, Listed[kind]).items  # type: ignore[valid-type]
    except RequestError as error:
        raise PlbError(f"{source}: {error.field}: {error.problem}") from None
    return items


def usages_of(data: bytes, source: str) -> list[tuple[float, dict[str, Resources]]]:
    """Return the latest time of a list, with what each pod used; an empty list has none."""
    items = listed(data, PodMetrics, source)
    used = {item.metadata.key: item.used() for item in items}
    return [(max(item.timestamp for item in items).timestamp(), used)] if items else []


@attrs.frozen
class Files:
    """Files with the JSON of ``kubectl get nodes``, ``kubectl get pods -A`` and of metrics.k8s.io."""

    nodes: Path
    pods: Path
    """File of the nodes, and file of the pods."""
    usage: Sequence[Path] = ()
    """Files of the metrics of pods, one for each time, in any order."""

    def read(self) -> Observed:
        """Return the cluster of the files."""
        usages = [usage for path in self.usage for usage in usages_of(path.read_bytes(), str(path))]
        return Observed(
            listed(self.nodes.read_bytes(), KubernetesNode, str(self.nodes)),
            listed(self.pods.read_bytes(), Pod, str(self.pods)),
            sorted(usages, key=itemgetter(0)),
        )


def token_of(file: Path | None) -> Callable[[httpx.Request], httpx.Request] | None:
    """Return what adds a token to a request: it reads the file each time, as Kubernetes renews it. None: no token."""
    if file is None:
        return None

    def authorize(request: httpx.Request) -> httpx.Request:
        request.headers["Authorization"] = f"Bearer {file.read_text(encoding='utf-8').strip()}"
        return request

    return authorize


class ApiServer:
    """An API server of Kubernetes at a URL; http only without a token, as of ``kubectl proxy``.

    `token_file`: as in `token_of`; `authority`: file with the certificates that are trusted, None: the system's.
    """

    def __init__(self, url: str, token_file: Path | None = None, authority: Path | None = None) -> None:
        parts = urlsplit(url)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and token_file is None)
        if parts.hostname is None or not is_safe:
            raise InvalidValueError("API server", "URL", url, "https://HOST:PORT, or http without a token")
        self._url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        tls = ssl.create_default_context(cafile=authority)
        self._http = httpx.Client(auth=token_of(token_file), verify=tls, timeout=SECONDS, trust_env=False)

    def read(self) -> Observed:
        """Return the cluster of the server, without usage if it does not serve metrics.k8s.io."""
        answers: list[bytes] = []
        for path in ("/api/v1/nodes", "/api/v1/pods", METRICS):
            status, data = self._request("GET", path)
            if status != httpx.codes.OK and (path != METRICS or status not in (404, 503)):
                raise PlbError(f"{self._url}{path}: status {status}: {data[:MOST_SHOWN]!r}")
            answers.append(data if status == httpx.codes.OK else b'{"items": []}')
        return Observed(
            listed(answers[0], KubernetesNode, f"{self._url}, nodes"),
            listed(answers[1], Pod, f"{self._url}, pods"),
            [(None, used) for _, used in usages_of(answers[2], self._url + METRICS)],
        )

    def evict(self, pod: Pod) -> tuple[int, str]:
        """Ask to evict a pod; return the status, 201: it is evicted, 0: no answer, and the words of the answer."""
        name, namespace = pod.metadata.name, pod.metadata.namespace
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": pod.metadata.uid}},
        }
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}/eviction"
        try:
            status, data = self._request("POST", path, json=body)
        except PlbError as error:
            return 0, str(error)
        return status, data[:MOST_SHOWN].decode("utf-8", "replace")

    def _request(self, method: str, path: str, **body: Any) -> tuple[int, bytes]:
        """Return status and body of the answer to a request."""
        try:
            answer = self._http.request(method, self._url + path, **body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise PlbError(f"{self._url}: {error or type(error).__name__}") from error
        return answer.status_code, answer.content
