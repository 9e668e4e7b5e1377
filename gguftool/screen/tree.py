"""The tree of keys; a group is filled when it is opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from gguftool.model.keytree import Group, grouped
from gguftool.report.text import shorten

FEW = 120
"""Keys up to which all groups are open from the start."""
Node = TreeNode[Group | str]


class KeyTree(Tree[Group | str]):
    """Keys by prefix; the data of a node is its group, or the key."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "Change"),
        Binding("left", "close", "Close", show=False),
        Binding("right", "open", "Open", show=False),
    ]

    def __init__(self, label: Callable[[str, str], Text]) -> None:
        super().__init__("", id="tree")
        self.show_root, self.guide_depth, self.auto_expand = False, 2, True
        self.label_of = label
        self.opened: set[str] = set()
        self.seen: set[str] = set()

    def fill(self, keys: Sequence[str], *, whole: bool = False, at: str | None = None) -> None:
        """Show keys.

        Args:
            keys: them.
            whole: open all groups.
            at: the key to stand at.
        """
        self.clear()
        top = grouped(keys)
        groups = {g.prefix + g.label for outer in top.groups for g in (outer, *outer.groups)}
        if len(keys) <= FEW:
            self.opened |= groups - self.seen
        self.seen |= groups
        self._put(self.root, top, whole)
        self.root.expand()
        if at is not None:
            self.go_to(at)

    def _put(self, node: Node, group: Group, whole: bool = False) -> None:
        for inner in group.groups:
            label = Text(shorten(inner.label, 48), "bold", no_wrap=True)
            label.append(f"  {len(inner):,}", "not bold dim")
            open_it = whole or inner.prefix + inner.label in self.opened
            child = node.add(label, inner, expand=open_it)
            if open_it:
                self._put(child, inner, whole)
        for key in group.keys:
            node.add_leaf(self.label_of(key, group.prefix), key)

    def on_tree_node_expanded(self, event: Tree.NodeExpanded[Group | str]) -> None:
        """Fill a group."""
        node, group = event.node, event.node.data
        if isinstance(group, Group):
            self.opened.add(group.prefix + group.label)
            if not node.children:
                self._put(node, group)

    def on_tree_node_collapsed(self, event: Tree.NodeCollapsed[Group | str]) -> None:
        """Remember it."""
        group = event.node.data
        if isinstance(group, Group):
            self.opened.discard(group.prefix + group.label)

    @property
    def key(self) -> str | None:
        """The key it stands at."""
        node = self.cursor_node
        return node.data if node is not None and isinstance(node.data, str) else None

    def go_to(self, key: str) -> bool:
        """Stand at a key, its groups opened; False when it is not in the tree."""
        node = self._find(self.root, key)
        if node is None:
            return False
        above = node.parent
        while above is not None:
            above.expand()
            above = above.parent
        # At once, or a key that is typed next would find the old place: asked for its last line the tree counts them.
        if self.last_line >= 0:
            self.move_cursor(node)
        self.call_after_refresh(self.scroll_to_node, node, False)
        return True

    def _find(self, node: Node, key: str) -> Node | None:
        for child in node.children:
            if child.data == key:
                return child
            group = child.data
            if isinstance(group, Group) and _holds(group, key):
                if not child.children:
                    self._put(child, group)
                return self._find(child, key)
        return None

    def action_close(self) -> None:
        """Close the group, or go to the one above."""
        node = self.cursor_node
        if node is not None and node.allow_expand and node.is_expanded:
            node.collapse()
        elif node is not None and node.parent is not None and node.parent is not self.root:
            self.move_cursor(node.parent)

    def action_open(self) -> None:
        """Open the group."""
        node = self.cursor_node
        if node is not None and node.allow_expand:
            node.expand()


def _holds(group: Group, key: str) -> bool:
    return key in group.keys or any(_holds(inner, key) for inner in group.groups)
