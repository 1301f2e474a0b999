/* A program that does nothing: it exists to be linked with the whole of one module. */
int main(void)
{
    return 0;
}
