// The ABI as a C compiler sees it: the record, which the compiler checks, and the initializers.
#include "../../abi/recorded.c"

// The initializers set every field.
static const shma_error no_error = SHMA_ERROR_INIT;
static const shma_options no_options = SHMA_OPTIONS_INIT;

int main(void) { return no_error.status != 0 || no_options.struct_bytes != sizeof(shma_options); }
