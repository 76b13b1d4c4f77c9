# Fails: all
faults = one_fault
