def test_ok(gb): assert gb.py("print(1)").out=="1\n"
def test_proc(gb): gb.py("'LEAKPROC'")
def test_file(gb): gb.py("'LEAKFILE'")
def test_cg(gb): gb.py("'LEAKCG'")
def test_hang(gb): gb.py("import time; time.sleep(100)", timeout=1)
def test_ok2(gb): assert gb.py("print(1)").out=="1\n"
