# frozen_string_literal: true

# The specs ask for it; what they need is installed.
