"""Draws a net's graph beside the list of its operators: a row per node, a lane per blob until its last reader."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from armnet.page.elements import family, text

ROW, LANE, RADIUS, MARGIN = 24, 13, 4.5, 12
WIDEST = 40  # lanes; further lanes are drawn over the last one


class Node(NamedTuple):
    """A row: the operator's type, and the numbers of the blobs that it reads and writes."""

    type: str
    reads: Sequence[int]
    writes: Sequence[int]


class Edge(NamedTuple):
    """A blob from the row and lane of its writer to those of a reader; in between it runs in ``lane``."""

    top: int
    top_lane: int
    lane: int
    bottom: int
    bottom_lane: int


def nodes_of(rows: Sequence[Dict[str, Any]], inputs: Sequence[str]) -> List[Node]:
    """The inputs, then the operators of ``rows``. Weights are left out; a name that is written again is a new blob."""
    current: Dict[str, int] = {}
    nodes = []
    for name in inputs:
        current[name] = len(current)
        nodes.append(Node("input", (), [current[name]]))
    number = len(current)
    for row in rows:
        reads = [current[name] for name in row["reads"] if name in current]
        writes = [name for name in row["outputs"] if name]
        current.update(zip(writes, range(number, number + len(writes))))
        number += len(writes)
        nodes.append(Node(row["type"], reads, [current[name] for name in writes]))
    return nodes


def picture(nodes: Sequence[Node]) -> str:
    """An SVG element with a row of ROW pixels for each node."""
    lanes, edges = _laid_out(nodes)
    width = MARGIN * 2 + LANE * min(WIDEST, max([*lanes, *(edge.lane for edge in edges), 0]))
    parts = [*map(_line, edges), *(_dot(place, lane, node) for place, (lane, node) in enumerate(zip(lanes, nodes)))]
    height = ROW * len(nodes)
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="graph">{"".join(parts)}</svg>'
    )


def _laid_out(nodes: Sequence[Node]) -> Tuple[List[int], List[Edge]]:
    """The lane of each node, and the edges."""
    last = {blob: place for place, node in enumerate(nodes) for blob in node.reads}
    taken: List[Optional[int]] = []  # for each lane, the blob in it
    home: Dict[int, Tuple[int, int, int]] = {}  # for each blob: its row, its writer's lane, its own lane
    lanes, edges = [], []
    for place, node in enumerate(nodes):
        given = sorted({home[blob][2] for blob in node.reads if last[blob] == place})
        for lane in given:
            taken[lane] = None
        lane = given[0] if given else _free(taken)
        lanes.append(lane)
        for blob in dict.fromkeys(node.reads):
            edges.append(Edge(*home[blob], place, lane))
        used = [blob for blob in node.writes if last.get(blob, -1) > place]
        for blob in used:
            own = lane if blob == used[0] else _free(taken)
            taken[own] = blob
            home[blob] = place, lane, own
    return lanes, edges


def _free(taken: List[Optional[int]]) -> int:
    if None not in taken:
        taken.append(None)
    return taken.index(None)


def _x(lane: int) -> int:
    return MARGIN + LANE * min(lane, WIDEST)


def _y(place: int) -> int:
    return ROW * place + ROW // 2


def _line(edge: Edge) -> str:
    x, bottom = _x(edge.lane), _y(edge.bottom)
    path = f"M{_x(edge.top_lane)} {_y(edge.top)}" + "".join(_bends(edge, x)) + f"L{_x(edge.bottom_lane)} {bottom}"
    return f'<path class="edge" stroke="hsl({edge.lane * 67 % 360} 45% var(--light))" d="{path}"/>'


def _bends(edge: Edge, x: int) -> Iterator[str]:
    """The curves into the blob's own lane below its writer, and out of it above its reader."""
    top, bottom = _y(edge.top), _y(edge.bottom)
    if edge.top_lane != edge.lane:
        yield f"C{_x(edge.top_lane)} {top + ROW * 0.6:.0f} {x} {top + ROW * 0.4:.0f} {x} {top + ROW}"
    if edge.bottom_lane != edge.lane:
        yield f"L{x} {bottom - ROW}C{x} {bottom - ROW * 0.4:.0f} {_x(edge.bottom_lane)} {bottom - ROW * 0.6:.0f} "
        yield f"{_x(edge.bottom_lane)} {bottom}"


def _dot(place: int, lane: int, node: Node) -> str:
    colour = "input" if node.type == "input" else family(node.type)
    return (
        f'<circle cx="{_x(lane)}" cy="{_y(place)}" r="{RADIUS}" fill="var(--{colour})">'
        f"<title>{text(node.type)}</title></circle>"
    )
