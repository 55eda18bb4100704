//! What a sandbox means: lifecycle, leases, quotas, usage.
