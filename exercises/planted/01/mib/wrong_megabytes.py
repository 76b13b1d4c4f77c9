# Fails: test_mib_bfloat16, test_mib_own_head, test_mib_half_vocabulary
parameters, table = 134_515_008, 49_152 * 576
mib = {
    "bfloat16": parameters * 2 / 10**6,
    "own_head": (parameters + table) * 4 / 10**6,
    "half_vocabulary": (parameters - table / 2) * 4 / 10**6,
}
