// The ABI as each compiler sees it: the recorded one, and initializers that set every field.
#include "../../abi/recorded.c"

int main(void) {
    return a_SHMA_ERROR_INIT.status != 0 ||
           a_SHMA_OPTIONS_INIT.struct_bytes != sizeof(shma_options);
}
