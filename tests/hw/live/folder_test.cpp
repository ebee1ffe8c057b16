// Whose folder does a service use, and what does `sim run` take from its file?  Nothing of what another user may have put there, and
// nothing is changed where it is refused.  Other users are played where the tests are root's.
#include "hw/live/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "hw/live/limits.h"
#include "tests/support/in_folder.h"
#include "tests/support/shell.h"
#include "tests/support/sim_file.h"
#include "traces/model/error.h"

namespace corun::live {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr uid_t kStranger = 12345;

class ServiceFolder : public InFolder {
 protected:
  const std::string at_ = (folder_ / "service").string();

  static mode_t mode(const std::string& path) {
    struct stat is{};
    return lstat(path.c_str(), &is) == 0 ? is.st_mode & 07777 : 0;
  }
  void make(mode_t mode) const { ASSERT_TRUE(mkdir(at_.c_str(), 0700) == 0 && chmod(at_.c_str(), mode) == 0); }
  void says(const std::string& text) const { std::ofstream(at_ + "/environment") << text; }
  static std::string problem(const std::function<void()>& of) {
    try {
      of();
    } catch (const InputError& e) {
      return e.problem();
    }
    return "none";
  }
  static std::string of_both(const std::string& at) {
    const std::string served = problem([&] { Folder::of_service(at); }), run = problem([&] { (void)Folder::of_program(at); });
    EXPECT_EQ(served, run) << at;
    return served;
  }
  std::string of_file() const {
    return problem([&] { (void)Folder::of_program(at_)->invitation(); });
  }
  /// What a process of another user prints.
  static std::string as_stranger(const std::function<std::string()>& says) {
    int ends[2];
    if (pipe(ends) != 0) return "no pipe";
    const pid_t child = fork();
    if (child == 0) {
      const std::string text = setgid(kStranger) == 0 && setuid(kStranger) == 0 ? says() : "nobody else";
      _exit(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
    }
    close(ends[1]);
    std::string text(4096, '\0');
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(read(ends[0], text.data(), text.size()), 0)));
    close(ends[0]);
    waitpid(child, nullptr, 0);
    return text;
  }
};

TEST_F(ServiceFolder, OneThatIsNotThereIsMadeForTheUserAloneAndGoneWithTheService) {
  const mode_t before = umask(0);
  {
    const Folder folder = Folder::of_service(at_ + "/");
    EXPECT_EQ(folder.path(), fs::canonical(at_));
    EXPECT_EQ(mode(at_), 0700u);
  }
  umask(before);
  EXPECT_FALSE(fs::exists(at_));
  EXPECT_FALSE(Folder::of_program(at_)) << "and a program makes none";
  EXPECT_FALSE(fs::exists(at_));
}

TEST_F(ServiceFolder, OneThatWasThereIsUsedAndStaysAsItWas) {
  make(0700);
  write("service/other", "kept");
  Folder::of_service(at_).invite({{"CORUN_SERVICE", "socket"}});
  EXPECT_EQ(mode(at_), 0700u);
  EXPECT_THAT(fs::directory_iterator(at_)->path().filename().string(), "other");
  EXPECT_EQ(std::distance(fs::directory_iterator(at_), {}), 1);
}

TEST_F(ServiceFolder, OneThatOthersMayEnterIsRefusedAndItsModeStays) {
  for (const mode_t each : {0701u, 0710u, 0704u, 0770u, 0755u, 0777u, 01777u, 0500u, 0600u}) {
    make(each);
    EXPECT_THAT(of_both(at_), HasSubstr("not 0700")) << each;
    EXPECT_EQ(mode(at_), each);
    fs::remove(at_);
  }
}

TEST_F(ServiceFolder, ALinkIsRefusedAlsoWhereASlashFollows) {
  make(0700);
  const std::string link = (folder_ / "link").string();
  fs::create_symlink(at_, link);
  for (const std::string& path : {link, link + "/", link + "/."}) EXPECT_THAT(of_both(path), HasSubstr("is a link")) << path;
  write("file", "");
  EXPECT_THAT(of_both((folder_ / "file").string()), HasSubstr("is a link, or no folder"));
  EXPECT_TRUE(fs::is_symlink(link));
}

TEST_F(ServiceFolder, OneBelowWhatAnybodyMayChangeIsRefused) {
  const std::string above = (folder_ / "above").string(), at = above + "/service";
  fs::create_directory(above);
  fs::create_directory(at);
  chmod(at.c_str(), 0700);
  chmod(above.c_str(), 0777);
  EXPECT_THAT(of_both(at), HasSubstr("may be written by all"));
  chmod(above.c_str(), 01777);
  EXPECT_EQ(of_both(at), "none") << "as of /tmp: what is there only its owner exchanges";
  if (geteuid() != 0) return;
  chmod(above.c_str(), 0755);
  ASSERT_EQ(chown(above.c_str(), kStranger, kStranger), 0);
  EXPECT_THAT(of_both(at), HasSubstr("belongs to another user"));
}

TEST_F(ServiceFolder, AnotherUsersIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "nobody else can be played here";
  make(0700);
  says("CORUN_SERVICE=socket\nLD_PRELOAD=/tmp/evil.so\n");
  ASSERT_EQ(chown(at_.c_str(), kStranger, kStranger), 0);
  EXPECT_THAT(of_both(at_), HasSubstr("another user"));
  ASSERT_EQ(chown(at_.c_str(), 0, 0), 0);
  chmod(folder_.c_str(), 0755);
  EXPECT_THAT(as_stranger([&] { return of_both(at_); }), HasSubstr("no folder of yours"));
  EXPECT_EQ(mode(at_), 0700u);
}

TEST_F(ServiceFolder, AUserWithoutARuntimeFolderOfTheirOwnHasOneForTheUser) {
  const char* before = std::getenv("XDG_RUNTIME_DIR");
  const std::string kept = before != nullptr ? before : "";
  const fs::path own = fs::temp_directory_path() / fmt::format("corun-{}", geteuid());
  setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
  EXPECT_EQ(Folder::by_default(), folder_ / "corun");
  for (const char* none : {"", "relative", "/none/there"}) {
    setenv("XDG_RUNTIME_DIR", none, 1);
    EXPECT_EQ(Folder::by_default(), own) << none;
  }
  if (geteuid() == 0) {
    const fs::path others = folder_ / "others";
    fs::create_directory(others);
    ASSERT_EQ(chown(others.c_str(), kStranger, kStranger), 0);
    setenv("XDG_RUNTIME_DIR", others.c_str(), 1);
    EXPECT_EQ(Folder::by_default(), own) << "sudo keeps the variable";
  }
  before != nullptr ? setenv("XDG_RUNTIME_DIR", kept.c_str(), 1) : unsetenv("XDG_RUNTIME_DIR");
}

TEST_F(ServiceFolder, ASecondServiceIsRefusedWhileOneIsThereAndAfterAKillNoneIs) {
  make(0700);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    Folder folder = Folder::of_service(at_);
    folder.invite({{"CORUN_SERVICE", "socket"}});
    (void)!::write(ends[1], "x", 1);
    pause();
  }
  char there = 0;
  ASSERT_EQ(read(ends[0], &there, 1), 1);
  EXPECT_EQ(problem([&] { Folder::of_service(at_); }), "another service is there");
  EXPECT_THAT(Folder::of_program(at_)->invitation(), ElementsAre(Pair("CORUN_SERVICE", at_ + "/socket")));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ends[0]), close(ends[1]);
  {
    const Folder again = Folder::of_service(at_);
    EXPECT_THAT(again.invitation(), testing::IsEmpty()) << "what the killed one said";
  }
  EXPECT_EQ(mode(at_), 0700u) << "an existing folder stays";
}

TEST_F(ServiceFolder, AFileThatNoServiceHasMadeIsNotTouched) {
  make(0700);
  for (const char* name : {"environment", "socket"}) {
    write(fmt::format("service/{}", name), "mine");
    EXPECT_THAT(problem([&] { Folder::of_service(at_); }), HasSubstr("no service has made"));
    EXPECT_EQ(fs::file_size(at_ + "/" + name), 4u);
    fs::remove(at_ + "/" + name);
  }
}

TEST_F(ServiceFolder, OfItsFileComeTheSocketAndMpsFoldersAndNothingElse) {
  make(0700);
  fs::create_directories(at_ + "/mps-1/pipe");
  const std::string all = "CORUN_SERVICE=" + at_ + "/socket\nCUDA_MPS_PIPE_DIRECTORY=mps-1/pipe\nCUDA_MPS_LOG_DIRECTORY=" + at_ + "/mps-1\n";
  says(all);
  EXPECT_THAT(Folder::of_program(at_)->invitation(),
              ElementsAre(Pair("CORUN_SERVICE", at_ + "/socket"), Pair("CUDA_MPS_PIPE_DIRECTORY", at_ + "/mps-1/pipe"),
                          Pair("CUDA_MPS_LOG_DIRECTORY", at_ + "/mps-1")));
  for (const char* other : {"LD_PRELOAD=/tmp/evil.so", "PATH=/tmp", "LD_PRELOAD=mps-1", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=1", "=", "nothing"}) {
    says(all + other + "\n");
    EXPECT_THAT(of_file(), HasSubstr("nothing of the file was used")) << other;
  }
}

TEST_F(ServiceFolder, APathThatLeavesTheFolderIsRefused) {
  make(0700);
  fs::create_directories(at_ + "/mps-1");
  fs::create_directory(at_ + "/open");
  chmod((at_ + "/open").c_str(), 0770);
  fs::create_directory_symlink("/tmp", at_ + "/link");
  for (const char* path : {"/tmp", "..", "mps-1/../..", "", "mps-1//", "./mps-1", "link", "link/x", "open", "none", "socket"}) {
    says(fmt::format("CUDA_MPS_PIPE_DIRECTORY={}\n", path));
    EXPECT_THAT(of_file(), HasSubstr("nothing of the file was used")) << path;
  }
  for (const char* path : {"/tmp/socket", "../socket", "mps-1/socket", "mps-1", ""}) {
    says(fmt::format("CORUN_SERVICE={}\n", path));
    EXPECT_THAT(of_file(), HasSubstr("nothing of the file was used")) << path;
  }
  says("CORUN_SERVICE=socket\nCORUN_SERVICE=socket\n");
  EXPECT_THAT(of_file(), HasSubstr("said twice"));
}

TEST_F(ServiceFolder, AFileThatIsNoFileOfTheUsersAloneIsNotRead) {
  make(0700);
  const std::string file = at_ + "/environment";
  fs::create_symlink(write("elsewhere", "CORUN_SERVICE=socket\n"), file);
  EXPECT_THAT(of_file(), HasSubstr("is a link"));
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_THAT(of_file(), HasSubstr("no file of yours alone")) << "and nobody waits for who writes into it";
  fs::remove(file);
  says("CORUN_SERVICE=socket\n");
  chmod(file.c_str(), 0622);
  EXPECT_THAT(of_file(), HasSubstr("no file of yours alone"));
  chmod(file.c_str(), 0600);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(file.c_str(), kStranger, kStranger), 0);
    EXPECT_THAT(of_file(), HasSubstr("no file of yours alone"));
    ASSERT_EQ(chown(file.c_str(), 0, 0), 0);
  }
  EXPECT_EQ(of_file(), "none");
  says("CORUN_SERVICE=socket\n" + std::string(limits::kFileBytes, '\n'));
  EXPECT_THAT(of_file(), HasSubstr("longer than what a service writes"));
}

class ServeAt : public ServiceFolder {
 protected:
  static std::string sim() { return sim_file(); }
  pid_t serve() const {
    const pid_t service = started({sim(), "serve", "--policy=fcfs", "--gpu=h200", "--no-mps", "--at", at_}, "/dev/null");
    for (int i = 0; i < 2000 && shell(fmt::format("{} top --at {}", sim(), at_)).code != 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return service;
  }
};

TEST_F(ServeAt, AFolderAsTmpIsRefusedWithCode2AndIsAsItWas) {
  make(01777);
  for (const char* command : {"serve --policy=fcfs --gpu=h200 --no-mps", "run", "top"}) {
    const Ran ran = shell(fmt::format("{} {} --at {} {}", sim(), command, at_, std::string(command) == "run" ? "-- true" : ""));
    EXPECT_EQ(ran.code, 2) << command;
    EXPECT_THAT(ran.out, HasSubstr("not 0700"));
    EXPECT_EQ(mode(at_), 01777u);
    EXPECT_TRUE(fs::is_empty(at_));
  }
}

TEST_F(ServeAt, OfAFolderOfAnotherUserNothingIsExecuted) {
  const std::string marker = (folder_ / "executed").string();
  make(0700);
  write("service/program", "#!/bin/sh\ntouch " + marker + "\n");
  chmod((at_ + "/program").c_str(), 0755);
  says("CORUN_SERVICE=socket\nPATH=" + at_ + "\nLD_PRELOAD=/tmp/evil.so\n");
  const std::string run = fmt::format("{} run --at {} -- program", sim(), at_);
  Ran ran = shell(run);
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.out, HasSubstr("nothing of the file was used"));
  if (geteuid() == 0) {
    ASSERT_EQ(chown(at_.c_str(), kStranger, kStranger), 0);
    ran = shell(run);
    EXPECT_EQ(ran.code, 2);
    EXPECT_THAT(ran.out, HasSubstr("another user"));
  }
  EXPECT_FALSE(fs::exists(marker));
}

TEST_F(ServeAt, AfterAKillAServiceStartsAgainInAFolderThatStays) {
  make(0700);  // as systemd's RuntimeDirectory
  const pid_t first = serve();
  end_process(first, SIGKILL);
  EXPECT_TRUE(fs::exists(at_ + "/socket")) << "of the one that was killed";
  EXPECT_EQ(shell(fmt::format("{} top --at {}", sim(), at_)).code, 2);
  const pid_t second = serve();
  EXPECT_EQ(shell(fmt::format("{} top --at {}", sim(), at_)).code, 0);
  EXPECT_EQ(shell(fmt::format("{} serve --policy=fcfs --gpu=h200 --no-mps --at {}", sim(), at_)).code, 2);
  end_process(second, SIGTERM);
  EXPECT_TRUE(fs::is_empty(at_));
  EXPECT_EQ(mode(at_), 0700u);
}

}  // namespace
}  // namespace corun::live
