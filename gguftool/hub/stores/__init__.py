"""Where programs keep models on this machine, and what lies there: the one home of these layouts.

`places` says where the stores are, `kept` what a store holds, one module reads each layout. Nothing is written, nothing
is asked of the network.
"""

from gguftool.hub.stores.kept import Contents, File, Kept, Name
from gguftool.hub.stores.places import PROGRAMS, Home, Place, closed, existing, homes, hub_cache
from gguftool.hub.stores.store import Store, folder, misplaced, stores

__all__ = [
    "PROGRAMS",
    "Contents",
    "File",
    "Home",
    "Kept",
    "Name",
    "Place",
    "Store",
    "closed",
    "existing",
    "folder",
    "homes",
    "hub_cache",
    "misplaced",
    "stores",
]
