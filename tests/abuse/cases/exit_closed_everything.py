# tries: close every descriptor and live on, so that our reader believes it has ended
# options: --timeout 2
# ends: timeout
os.closerange(0, 4096)
while True:
    try:
        time.sleep(1000)
    except KeyboardInterrupt:
        pass
