// How a policy makes itself known: its file defines one `const Registered`, which `--policy=help` lists and
// `--policy=NAME:key=value,...` finds.  There is no other place to register it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "policies/api/policy.h"
#include "traces/model/error.h"

namespace corun {

struct Parameter {
  std::string name, meaning, default_value;
  bool rest = false;  // its value is all that follows, as the policy of an instance with its parameters
};

/// The parameters of one policy as given, defaults filled in.
class Parameters {
 public:
  /// `text` is "key=value,key=value" or empty; a parameter that takes the rest may follow a colon, too.  Throws
  /// InputError for a key that `known` does not have.
  Parameters(std::string_view policy, const std::vector<Parameter>& known, std::string_view text);

  /// `key` is one that the policy is registered with, as below.
  const std::string& text(std::string_view key) const;
  /// Throws InputError if the value is not a number within [least, most].
  double number(std::string_view key, double least, double most) const;
  /// One of `choices`; throws InputError otherwise.
  const std::string& choice(std::string_view key, const std::vector<std::string>& choices) const;

 private:
  [[noreturn]] void refuse(std::string_view key, const std::string& expected) const;

  std::string policy_;
  std::vector<std::pair<std::string, std::string>> values_;
};

/// What a policy promises beyond running everything in the end; policy_properties_test holds it to that.
struct Promises {
  bool no_starvation = false;  // a client's launches get on, whatever load the others make
  bool reservations = false;   // Client::reservation is there one block time after it is claimed
  /// A launch is launched when it is first shown, a stream's always in the same way (but where the launch itself has a mask): its
  /// client need not wait for the word.
  bool immediate = false;
};

struct PolicyInfo {
  std::string name;
  std::string summary;  // one line
  std::string source;   // paper and section
  std::vector<Parameter> parameters;
  Promises promises{};
  std::vector<std::string> also_called{};  // in the words of those who operate GPUs
  std::string unverified{};                // why no GPU has been compared with it; empty: one has, or a paper
};

struct Registered {
  /// Throws InputError for a value that is out of place.
  using Make = std::unique_ptr<Policy> (*)(const Parameters&);
  Registered(PolicyInfo info, Make make);
};

/// Every registered policy, by name.
std::vector<PolicyInfo> policies();

/// Makes a policy from "name" or "name:key=value,key=value".  Throws InputError, listing the names or keys
/// there are.
std::unique_ptr<Policy> make_policy(std::string_view spec);

}  // namespace corun
