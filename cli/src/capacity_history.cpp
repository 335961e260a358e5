// capacity simulate over a recorded journal: qm-replay reads the database, steps the engine and prints the bills.
#include "commands.hpp"
#include "print.hpp"

#include <fmt/format.h>
#include <spawn.h>

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sys/wait.h>
#include <unistd.h>

namespace qm::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kNoSuchProgram = 127;

/// QM_REPLAY, else the program in the folder of this one, else in PATH.
std::string replay_program() {
  if (const char* named = std::getenv("QM_REPLAY"); named != nullptr && *named != 0) return named;
  std::error_code ignored;
  const auto sibling = fs::read_symlink("/proc/self/exe", ignored).parent_path() / "qm-replay";
  return fs::exists(sibling, ignored) ? sibling.string() : "qm-replay";
}

/// A file that ends with this object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    const int fd = ::mkstemp(path_.data());
    if (fd < 0) return;
    ::close(fd);
    std::ofstream(path_) << text;
    made_ = true;
  }
  ~TemporaryFile() {
    if (made_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] bool made() const { return made_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_ = (fs::temp_directory_path() / "qmctl-change-XXXXXX").string();
  bool made_ = false;
};

/// Runs a program with this one's output; its exit code, or kNoSuchProgram.
int run_program(const std::vector<std::string>& args) {
  std::vector<char*> argv;
  for (const auto& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  pid_t pid = 0;
  if (::posix_spawnp(&pid, argv[0], nullptr, nullptr, argv.data(), environ) != 0) return kNoSuchProgram;
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kFailed;
}

}  // namespace

Status run_verb(Context& context, const HistoryVerb& verb) {
  if (context.format == Format::kYaml) {
    return fail(
        {Code::kInvalid, "the bills of a journal are printed as a table or as JSON", "--output", "use --output json"});
  }
  auto change = verb.change;
  add_manifests(context, change);
  const TemporaryFile file(to_json(change).dump());
  if (!file.made()) {
    return fail({Code::kInternal, "the change cannot be written to a temporary file", "TMPDIR",
                 "set TMPDIR to a folder that can be written"});
  }
  std::vector<std::string> args{replay_program(),
                                "--postgres",
                                verb.journal,
                                "--service",
                                "autoscaler",
                                "--shard",
                                verb.shard,
                                "--what-if",
                                file.path(),
                                "--demand",
                                fmt::format("{}", verb.demand_percent)};
  for (const auto& set : verb.sets) args.insert(args.end(), {"--set", set});
  if (context.structured()) args.insert(args.end(), {"--output", "json"});
  context.out.flush();
  const int code = run_program(args);
  if (code == kNoSuchProgram) {
    return fail({Code::kFailedPrecondition, fmt::format("{} cannot be started", args[0]), "--journal",
                 "install qm-replay of the same release, or name it in QM_REPLAY"});
  }
  context.code = code;
  return {};
}

}  // namespace qm::cli
