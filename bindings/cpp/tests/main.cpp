// The test program: runs the tests, or the task of a second process that a test started.
#define DOCTEST_CONFIG_IMPLEMENT
#include "fixture.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sys/wait.h>
#include <unistd.h>

int files_in_directory() { return static_cast<int>(names_in_directory().size()); }

std::vector<std::string> names_in_directory() {
    std::vector<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator(std::getenv("SHMARRAY_DIR"))) {
        const std::string name = entry.path().filename().string();
        if (name.rfind("shmarray-", 0) == 0 && name.rfind("shmarray-registry-", 0) != 0)
            names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
}

int run_forked(const std::function<int()> &body) {
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0)
        _exit(body());
    int status = -1;
    return waitpid(child, &status, 0) == child ? status : -1;
}

int run_child(const std::string &role, const std::string &argument) {
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "tests", "child", role.c_str(), argument.c_str(),
              static_cast<char *>(nullptr));
        _exit(127);
    }
    int status = -1;
    return waitpid(child, &status, 0) == child ? status : -1;
}

int main(int count, char **arguments) {
    if (count == 4 && std::string(arguments[1]) == "child")
        return be_child(arguments[2], arguments[3]);
    if (std::getenv("SHMARRAY_DIR") == nullptr) {
        std::fputs("SHMARRAY_DIR must be a directory for these tests alone\n", stderr);
        return 2;
    }
    return doctest::Context(count, arguments).run();
}
