// Uses the library: an array that is attached again by its handle.
#include <stdio.h>

#include <shmarray.h>

int main(void) {
    shma_error error = SHMA_ERROR_INIT;
    const int64_t shape[] = {2, 3};
    shma_array *array, *again;
    char handle[1024];
    if (shma_array_create(SHMA_INT32, 2, shape, NULL, &array, &error) != SHMA_OK ||
        shma_array_handle(array, handle, sizeof handle, NULL, &error) != SHMA_OK ||
        shma_array_attach(handle, SHMA_READ_WRITE, &again, &error) != SHMA_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    ((int32_t *)shma_array_data(array))[5] = 7;
    const int32_t seen = ((int32_t *)shma_array_data(again))[5];
    shma_array_close(again);
    shma_array_close(array);
    printf("version %s, and %d\n", shma_version(), (int)seen);
    return seen == 7 ? 0 : 1;
}
