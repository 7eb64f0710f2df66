#pragma once
/// An open file of the operating system, closed at the end of its scope.

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

namespace zerolock {

class Descriptor {
 public:
  /// Opens with the flags of open(2). A failure leaves number() negative and the reason in errno.
  Descriptor(const std::filesystem::path& file, int flags)
      : number_(::open(file.c_str(), flags | O_CLOEXEC, 0666)) {}
  /// Takes over what a call has opened; negative if it failed.
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

}  // namespace zerolock
