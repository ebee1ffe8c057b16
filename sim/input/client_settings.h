// What of a client can be said in a word: on the command line, in a sweep and in Python.  One table, so that the
// names are the same everywhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/model/trace.h"

namespace corun::sim {

/// "rate=50", "rt".
struct ClientSetting {
  std::string key, value;
  bool has_value = false;
};

/// Parts a word at its sign, and checks that there is such a setting, with a value where it needs one.  `place`
/// stands in messages.  Throws InputError.
ClientSetting parse_client_setting(const std::string& word, const std::string& place);
/// Checks that none is given twice and none excludes another.  Throws InputError.
void check_client_settings(const std::vector<ClientSetting>& settings, const std::string& place);
/// Changes the client.  What was read from files on the way is added to `notes`.  Throws InputError.
void apply_client_settings(Client& client, const std::vector<ClientSetting>& settings, const std::string& place,
                           std::vector<std::string>& notes);
/// The number in `replicas=`; 0: none is given.  Throws InputError.
std::uint32_t replicas_of(const std::vector<ClientSetting>& settings, const std::string& place);
/// A line for each, for `--help`.  `of_files`: also those that choose what is taken from a file.
std::string client_settings_help(bool of_files);

}  // namespace corun::sim
