# Fails: test_mib_half_vocabulary
parameters, table = 134_515_008, 49_152 * 576
mib = {
    "bfloat16": parameters * 2 / 2**20,
    "own_head": (parameters + table) * 4 / 2**20,
    "half_vocabulary": (parameters - table) * 4 / 2**20,
}
