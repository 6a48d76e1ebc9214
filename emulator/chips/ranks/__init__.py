"""One emulation of several chips over several processes, which MPI starts and calls ranks.

``mesh.RankMesh`` emulates the chips of one rank; ``team.Team`` is what the ranks agree on before and after
the run, and what becomes of them when one dies.
"""
