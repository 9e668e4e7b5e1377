"""Where programs keep models on this machine, and what lies there: the one home of these layouts.

`places` says where the stores are, `kept` what a store holds, one module reads each layout. Nothing is written, nothing
is asked of the network.
"""

from gguftool.hub.stores.kept import Contents, File, Kept, Name
from gguftool.hub.stores.places import PROGRAMS, Home, Place, homes, hub_cache, places
from gguftool.hub.stores.store import Store, misplaced, stores

__all__ = [
    "PROGRAMS",
    "Contents",
    "File",
    "Home",
    "Kept",
    "Name",
    "Place",
    "Store",
    "homes",
    "hub_cache",
    "misplaced",
    "places",
    "stores",
]
