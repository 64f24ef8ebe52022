"""Tenant classes of the synthetic regions: the public Azure SQL "Gen5" sizes and their limits.

A class is what is known before a tenant is placed ([1] section 3): the maximum resources, where the data lies, the
billing model, and the number of replicas. The limits are those of "Resource limits for single databases using the vCore
purchasing model" (Microsoft, Azure SQL documentation, Gen5 tables, 2020-2023).
"""

from __future__ import annotations

import attrs
import numpy as np

from plb.array_types import Float32, Int8
from workloads.trace import MetricInfo

METRICS = (MetricInfo("cpu", "vCores", trend=False), MetricInfo("memory", "GB"), MetricInfo("disk", "GB"))
"""The three resources of [1] section 8.1, in the order of the columns."""

VCORES = (2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 24, 32, 40, 80)
"""Gen5 compute sizes, vCores."""
LARGEST_SERVERLESS = 40
"""Largest serverless Gen5 size in the tables of 2020-2022, vCores."""
MEMORY_PER_VCORE = 5.1
"""Provisioned compute, GB a vCore ([1] section 8.1; Gen5 tables)."""
SERVERLESS_MEMORY_PER_VCORE = 3.0
"""Serverless compute, GB a vCore at the most (Gen5 serverless tables: 2 vCores 6 GB, 8 vCores 24 GB)."""
TEMPDB_PER_VCORE = 32.0
"""Largest tempdb data size, GB a vCore (Gen5 tables); the only local disk of a database with remote storage."""
LOCAL_DATA = {2: 1024, 4: 1024, 6: 1536, 8: 1536, 10: 1536, 12: 3072, 14: 3072, 16: 3072, 18: 3072, 20: 3072}
"""Business Critical: largest data size on local SSD by vCores, GB (Gen5 tables); above 20 vCores 4096."""
LARGEST_LOCAL_DATA = 4096
LOCAL_REPLICAS = 4
"""Replicas of a Business Critical database (Gen5 tables, "number of replicas": 4)."""


@attrs.frozen
class TenantClass:
    """One tenant class.

    Parameters
    ----------
    vcores
        Maximum vCores.
    local
        True: data on local SSD (Business Critical). False: remote storage, local disk for tempdb only (General
        Purpose).
    serverless
        True: billed by use; memory is reclaimed when the database idles.
    """

    vcores: int
    local: bool
    serverless: bool

    @property
    def name(self) -> str:
        """Name in Azure's convention, such as ``BC_Gen5_8``, ``GP_Gen5_2`` or ``GP_S_Gen5_4``."""
        return f"{'BC' if self.local else 'GP_S' if self.serverless else 'GP'}_Gen5_{self.vcores}"

    @property
    def replicas(self) -> int:
        """Number of replicas."""
        return LOCAL_REPLICAS if self.local else 1

    @property
    def limits(self) -> tuple[float, float, float]:
        """What one replica may use: vCores, GB of memory, GB of local disk."""
        memory = SERVERLESS_MEMORY_PER_VCORE if self.serverless else MEMORY_PER_VCORE
        disk = LOCAL_DATA.get(self.vcores, LARGEST_LOCAL_DATA) if self.local else TEMPDB_PER_VCORE * self.vcores
        return float(self.vcores), memory * self.vcores, float(disk)


LOCAL = tuple(TenantClass(vcores, local=True, serverless=False) for vcores in VCORES)
REMOTE = tuple(TenantClass(vcores, local=False, serverless=False) for vcores in VCORES)
SERVERLESS = tuple(
    TenantClass(vcores, local=False, serverless=True) for vcores in VCORES if vcores <= LARGEST_SERVERLESS
)
CLASSES = LOCAL + REMOTE + SERVERLESS
"""All classes; a class code of a synthetic trace set is a position in here."""
CLASS_LIMITS: Float32 = np.array([tenant_class.limits for tenant_class in CLASSES], np.float32)
"""The limits of all classes, shape (C, 3): vCores, GB, GB."""
CLASS_REPLICAS: Int8 = np.array([tenant_class.replicas for tenant_class in CLASSES], np.int8)
"""The replicas of all classes, shape (C,)."""
CLASS_LIMITS.flags.writeable = CLASS_REPLICAS.flags.writeable = False
