"""The paper's mixed-integer program, and a tighter one."""
