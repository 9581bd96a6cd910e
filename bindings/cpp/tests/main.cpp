// The test program: runs the tests, or the task of a second process that a test started.
#define DOCTEST_CONFIG_IMPLEMENT
#include "fixture.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sys/mount.h>
#include <sys/statvfs.h>
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

SmallDirectory::SmallDirectory(const std::string &options) : before_(std::getenv("SHMARRAY_DIR")) {
    std::string path = before_ + "/small-XXXXXX"; // a path of its own: it identifies the registry
    REQUIRE(mkdtemp(path.data()) != nullptr);
    if (mount("tmpfs", path.c_str(), "tmpfs", 0, options.c_str()) != 0) {
        MESSAGE("skipped: a small file system cannot be mounted here: ", std::strerror(errno));
        rmdir(path.c_str());
        return;
    }
    path_ = path;
    setenv("SHMARRAY_DIR", path.c_str(), 1);
}

SmallDirectory::~SmallDirectory() {
    if (path_.empty())
        return;
    umount2(path_.c_str(), MNT_DETACH); // lazily: this process keeps its registry mapped
    rmdir(path_.c_str());
    setenv("SHMARRAY_DIR", before_.c_str(), 1);
}

std::uint64_t SmallDirectory::free_bytes() const {
    struct statvfs facts{};
    REQUIRE(statvfs(path_.c_str(), &facts) == 0);
    return std::uint64_t{facts.f_bavail} * facts.f_frsize;
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
