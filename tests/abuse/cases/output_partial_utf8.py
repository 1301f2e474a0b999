# tries: break the decoder with text that ends in the middle of a character, again and again
for text in (b"\xe2\x98", b"\xf0\x9f\x90", b"\xed\xa0\x80", b"\xc0\x80", b"\xff" * 9, b"\xf4\x90"):
    for i in range(len(text)):
        os.write(1, text[i:i + 1])
        os.write(2, text[i:i + 1])
print()
finish()
os.write(1, b"\xe2\x98")
