/* Stands in for libFuzzer where a target only takes given inputs, once each: ci/fuzz --ci. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int take(const char *path) {
    static uint8_t input[1 << 20];
    FILE *file = fopen(path, "rb");
    if (!file)
        return -1;
    size_t size = fread(input, 1, sizeof input, file);
    if (ferror(file) || fclose(file) || size == sizeof input)
        return -1;
    /* Of its own size, so that a tool that watches memory sees what is read beyond it. */
    uint8_t *data = malloc(size ? size : 1);
    for (size_t i = 0; i < size; i++)
        data[i] = input[i];
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 0;
}

int main(int count, char **paths) {
    for (int i = 1; i < count; i++) {
        if (take(paths[i])) {
            perror(paths[i]);
            return 1;
        }
        printf("Executed %s\n", paths[i]);
        fflush(stdout);
    }
    return count < 2;
}
