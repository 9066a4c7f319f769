"""What a node does about the controller: carries out what `barnabas.controller` decides, and finds the active one."""
