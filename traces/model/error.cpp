#include "traces/model/error.h"

#include <utility>

namespace corun {
namespace {

std::string sentence(const std::string& file, const std::string& place, const std::string& problem,
                     const std::string& remedy) {
  std::string text = file;
  if (!place.empty()) text += (text.empty() ? "at " : ": at ") + place;
  text += (text.empty() ? "" : ": ") + problem;
  if (!remedy.empty()) text += "\n  remedy: " + remedy;
  return text;
}

}  // namespace

InputError::InputError(std::string file, std::string place, std::string problem, std::string remedy)
    : std::runtime_error(sentence(file, place, problem, remedy)),
      file_(std::move(file)),
      place_(std::move(place)),
      problem_(std::move(problem)),
      remedy_(std::move(remedy)) {}

}  // namespace corun
