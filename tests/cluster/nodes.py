"""Writes the addresses of the nodes that a cluster calls alive. Usage: nodes.py HOST:PORT"""

import sys

from ray._raylet import GcsClient

nodes = GcsClient(address=sys.argv[1]).get_all_node_info(timeout=10)
for node in nodes.values():
    if node.state == 0:  # alive
        print(node.node_manager_address)
